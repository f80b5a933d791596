"""A node's cache as its loader sees it. Blocking; one request per connection."""

from __future__ import annotations

import http.client
import urllib.parse
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path

from evenkeel.domain import codec, upload
from evenkeel.domain.upload import Refusal, UploadState
from evenkeel.errors import ConfigurationError, DataError, EvenkeelError, InputError, RetryableError
from evenkeel.reasons import Reason

ANSWER_SECONDS = 90.0
"""Longest wait for the connection, for one piece to be taken and for the answer."""
PIECE_BYTES = 1024 * 1024
_ERRORS: dict[int, type[EvenkeelError]] = {
    401: ConfigurationError,
    403: ConfigurationError,  # the cache may not have heard yet that the revision is wanted
    404: RetryableError,  # as 403
    409: RetryableError,
    422: DataError,
    507: InputError,
}


class CacheClient:
    """Uploads one revision to one cache.

    All calls raise RetryableError when the cache does not answer or is not ready, ConfigurationError when
    it does not let us in, InputError when the revision does not fit, DataError when bytes are wrong.

    Args:
        endpoint: `http://ADDRESS:PORT`.
        dataset_uid: of the revision's dataset.
        digest: of the revision.
        token_path: file with the service account token; read for each request, since it is renewed.
        seconds: longest wait for the connection and for an answer.
    """

    def __init__(
        self,
        endpoint: str,
        dataset_uid: str,
        digest: str,
        token_path: Path,
        *,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            message = f"loader.endpoint {endpoint!r:.200}: must be http://ADDRESS:PORT"
            raise InputError(message, reason=Reason.INVALID_SPEC)
        self._host, self._port = parts.hostname, parts.port
        self._revision = (dataset_uid, digest)
        self._token_path = token_path
        self._seconds = seconds

    def read_state(self) -> UploadState:
        """How far the revision is."""
        return self._call("GET", upload.revision_path(*self._revision))

    def put_manifest(self, manifest: bytes) -> UploadState:
        """Send the content manifest."""
        path = upload.manifest_path(*self._revision)
        return self._call("PUT", path, _cut(manifest), len(manifest))

    def put_shard(self, index: int, length: int, pieces: Iterable[bytes]) -> UploadState:
        """Send a shard file of `length` bytes; what `pieces` raises goes through."""
        return self._call("PUT", upload.shard_path(*self._revision, index), pieces, length)

    def _call(
        self, method: str, path: str, pieces: Iterable[bytes] | None = None, length: int = 0
    ) -> UploadState:
        headers = {"Authorization": f"Bearer {self._read_token()}"}
        if pieces is not None:
            headers["Content-Length"] = str(length)
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._seconds)
        try:
            status, body = self._exchange(connection, method, path, pieces, headers)
        except (OSError, http.client.HTTPException) as error:
            message = f"cache {self._host}:{self._port} does not answer: {type(error).__name__}"
            raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error
        finally:
            connection.close()
        return _read_answer(status, body)

    @staticmethod
    def _exchange(
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        pieces: Iterable[bytes] | None,
        headers: dict[str, str],
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, path, body=pieces, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # A cache that refuses answers at once and reads no further: the answer is there to be read.
            if connection.sock is None:
                raise
            response = http.client.HTTPResponse(connection.sock, method=method)
            response.begin()
            return response.status, response.read()
        response = connection.getresponse()
        return response.status, response.read()

    def _read_token(self) -> str:
        try:
            return self._token_path.read_text().strip()
        except OSError as error:
            message = f"token {self._token_path}: {error.strerror}"
            raise ConfigurationError(message, reason=Reason.SECRET_MISSING) from error


def _cut(data: bytes) -> Iterable[bytes]:
    view = memoryview(data)
    return (bytes(view[begin : begin + PIECE_BYTES]) for begin in range(0, len(data), PIECE_BYTES))


def _read_answer(status: int, body: bytes) -> UploadState:
    if status == HTTPStatus.OK:
        return codec.loads(UploadState, body)
    try:
        refusal = codec.loads(Refusal, body)
        reason, message = Reason(refusal.reason), refusal.message
    except (InputError, ValueError):
        reason, message = Reason.CACHE_UNAVAILABLE, body[:200].decode(errors="replace")
    kind = _ERRORS.get(status, RetryableError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else InputError)
    raise kind(f"the cache answered {status}: {message}", reason=reason)
