"""What the API server's refusals mean: HTTP status and body -> our errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from evenkeel.errors import ConfigurationError, EvenkeelError, InputError, RetryableError
from evenkeel.reasons import Reason

MESSAGE_LIMIT = 600
"""A refused Job template is many kilobytes; conditions and logs take the beginning."""
TYPED_PATCH = "failed to create typed patch object"
"""How the API server begins its 500 for a server-side apply with a field that the CRD does not know."""


class NotFoundError(InputError):
    """The object that was to be changed does not exist (any more)."""


class KindAbsentError(ConfigurationError):
    """The API server does not serve this kind: its CRD is not installed."""


class ConflictError(RetryableError):
    """The object exists already, has another UID, or changed since it was read: look again."""


class ExpiredError(RetryableError):
    """The resource version of a watch is too old: list again."""


_BY_STATUS: dict[int, Callable[[str], EvenkeelError]] = {
    HTTPStatus.UNAUTHORIZED: lambda text: ConfigurationError(text, reason=Reason.NOT_PERMITTED),
    HTTPStatus.FORBIDDEN: lambda text: ConfigurationError(text, reason=Reason.NOT_PERMITTED),
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.GONE: ExpiredError,
    HTTPStatus.TOO_MANY_REQUESTS: RetryableError,
}


def failure(status: int, body: str, what: str) -> EvenkeelError:
    """The error for an answer that is not 2xx; `what` says what was asked, such as `PATCH /api/v1/...`."""
    text, parsed = _message(body)
    message = f"{what}: HTTP {status}: {text}"
    if status == HTTPStatus.NOT_FOUND:
        # A missing object answers with a Status that names it, a missing kind with plain text or no name.
        named = bool((parsed.get("details") or {}).get("name"))
        return NotFoundError(message) if named else KindAbsentError(message)
    if status in _BY_STATUS:
        return _BY_STATUS[status](message)
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return InputError(message, reason=Reason.INVALID_SPEC)
    if text.startswith(TYPED_PATCH):
        return InputError(message, reason=Reason.CRD_OLDER_THAN_OPERATOR)
    return RetryableError(message)


def _message(body: str) -> tuple[str, dict[str, Any]]:
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        return body.strip()[:MESSAGE_LIMIT], {}
    return str(parsed.get("message", ""))[:MESSAGE_LIMIT], parsed
