"""The client of the API server: objects are plain dicts, errors are ours, every call has a timeout."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

from evenkeel import names
from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.kube import watch as watching
from evenkeel.kube.failures import KindAbsentError, NotFoundError, failure
from evenkeel.kube.resources import TOKEN_REVIEW, Resource

Object = dict[str, Any]
Objects = list[Object]

CONNECT_SECONDS = 3.0
CALL_SECONDS = 15.0
PAGE = 500
"""Objects per page of a list."""
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Whom a token belongs to, as the API server says."""

    username: str
    uid: str
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Credentials:
    """How this process reaches the API server, for a library that wants to connect by itself."""

    server: str
    ca_path: str | None
    authorization: str | None
    """`Bearer TOKEN` or None; never log it."""
    certificate_path: str | None
    key_path: str | None


class Kube:
    """One connection pool to one API server. Objects go in and out as JSON dicts.

    All methods raise RetryableError when the server does not answer or is busy, ConfigurationError when
    a right is missing or a kind is not installed, InputError when the object is refused.
    """

    def __init__(self, api: ApiClient, manager: str = names.FIELD_MANAGER) -> None:
        self._api = api
        self._manager = manager

    @classmethod
    async def connect(cls, *, manager: str = names.FIELD_MANAGER) -> Kube:
        """Connect as the pod's service account, else as `KUBECONFIG` (or `~/.kube/config`) says.

        Raises:
            ConfigurationError: neither is there, or the file cannot be used.
        """
        settings = Configuration()
        try:
            if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
                config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
            else:
                path = os.environ.get("KUBECONFIG", KUBE_CONFIG_DEFAULT_LOCATION)
                await config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=path, client_configuration=settings, persist_config=False
                )
        except (ConfigException, OSError) as error:
            raise ConfigurationError(f"no usable access to an API server: {error}") from error
        return cls(ApiClient(settings), manager)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def credentials(self) -> Credentials:
        """How this client connects; with a fresh token where tokens are renewed."""
        settings = self._api.configuration
        auth = (await settings.auth_settings()).get("BearerToken")
        return Credentials(
            server=settings.host,
            ca_path=settings.ssl_ca_cert,
            authorization=str(auth["value"]) if auth else None,
            certificate_path=settings.cert_file,
            key_path=settings.key_file,
        )

    async def apply(
        self, resource: Resource, body: Mapping[str, Any], *, subresource: str = "", force: bool = True
    ) -> Object:
        """Server-side apply -> the stored object. With `metadata.uid` it never resurrects a deleted one.

        Raises:
            InputError: reason CrdOlderThanOperator when the CRD does not know a field.
            ConflictError: another UID, or (without `force`) another manager's field.
        """
        meta = body["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        query = {"fieldManager": self._manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        return await self._call(
            "PATCH", path, query=query, body={**resource.header(), **body}, content=_APPLY
        )

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None if it does not exist."""
        try:
            return await self._call("GET", resource.path(namespace, name))
        except NotFoundError:
            return None

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Objects:
        """All objects that match; each carries apiVersion and kind."""
        found, _ = await self.list_with_version(
            resource, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )
        return found

    async def list_with_version(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> tuple[Objects, str]:
        """As `list`, with the resource version from which a watch goes on."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": str(PAGE)}
        found: Objects = []
        while True:
            page = await self._call("GET", resource.path(namespace), query=query)
            found.extend({**resource.header(), **item} for item in page["items"])
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return found, str(page["metadata"].get("resourceVersion", ""))

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        on_listed: Callable[[], None] | None = None,
        optional: bool = False,
    ) -> AsyncIterator[tuple[str, Object]]:
        """`(ADDED | MODIFIED | DELETED, object)` for ever; see `kube.watch.follow`."""
        selection = watching.Selection(resource, namespace, label_selector, field_selector)
        return watching.follow(self, selection, on_listed, optional=optional)

    async def open_watch(self, path: str, query: Mapping[str, str], seconds: float) -> aiohttp.ClientResponse:
        """The open response of a watch request; the caller reads lines and closes it."""
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        return await self._send("GET", path, query=query, timeout=timeout)

    async def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None
    ) -> Object:
        """Create an object -> as stored. ConflictError if the name is taken."""
        path = resource.path(namespace or body.get("metadata", {}).get("namespace"))
        query = {"fieldManager": self._manager}
        return await self._call("POST", path, query=query, body={**resource.header(), **body})

    async def replace(self, resource: Resource, body: Mapping[str, Any]) -> Object:
        """Replace an object; ConflictError if its resourceVersion is not the newest."""
        meta = body["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"])
        query = {"fieldManager": self._manager}
        return await self._call("PUT", path, query=query, body={**resource.header(), **body})

    async def patch_json(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        """JSON patch (RFC 6902). A `test` that fails is an InputError."""
        path = resource.path(namespace, name, subresource)
        query = {"fieldManager": self._manager}
        return await self._call("PATCH", path, query=query, body=list(operations), content=_JSON_PATCH)

    async def patch_merge(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        """JSON merge patch (RFC 7386)."""
        path = resource.path(namespace, name, subresource)
        query = {"fieldManager": self._manager}
        return await self._call("PATCH", path, query=query, body=body, content=_MERGE_PATCH)

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, uid: str | None = None
    ) -> None:
        """Delete with its dependents in the background; gone already is fine.

        With `uid` only that very object: another one of the same name is a ConflictError.
        """
        body: Object = {"propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", resource.path(namespace, name), body=body)
        except NotFoundError:
            return

    async def review_token(self, token: str, audience: str) -> TokenIdentity | None:
        """Whom `token` belongs to; None if it is not valid for `audience`."""
        body = {"spec": {"token": token, "audiences": [audience]}}
        answer = await self._call("POST", TOKEN_REVIEW.path(), body={**TOKEN_REVIEW.header(), **body})
        status = answer.get("status", {})
        if not status.get("authenticated") or audience not in status.get("audiences", ()):
            return None
        user = status.get("user", {})
        extra = {key: tuple(values) for key, values in user.get("extra", {}).items()}
        return TokenIdentity(user.get("username", ""), user.get("uid", ""), extra)

    async def find_version(self, group: str, plural: str) -> str | None:
        """The version in which a kind of somebody else is served, the preferred one first; None: in none."""
        try:
            found = await self._call("GET", f"/apis/{group}")
            preferred = found.get("preferredVersion", {}).get("version")
            versions = [one["version"] for one in found.get("versions", ())]
            for version in sorted(versions, key=lambda one: one != preferred):
                served = await self._call("GET", f"/apis/{group}/{version}")
                if any(one["name"] == plural for one in served.get("resources", ())):
                    return str(version)
        except (KindAbsentError, NotFoundError):
            return None
        return None

    async def ready(self) -> bool:
        """Whether the API server answers at all."""
        try:
            await self._call("GET", "/version", seconds=CONNECT_SECONDS)
        except RetryableError:
            return False
        except EvenkeelError:
            # A refusal is an answer.
            return True
        return True

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: str = _JSON,
        seconds: float = CALL_SECONDS,
    ) -> Object:
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        response = await self._send(method, path, query=query, body=body, content=content, timeout=timeout)
        async with response:
            try:
                answer = json.loads(await response.read())
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                raise RetryableError(f"{method} {path}: {_why(error)}") from error
        return answer if isinstance(answer, dict) else {}

    async def _send(
        self,
        method: str,
        path: str,
        *,
        timeout: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: str = _JSON,
    ) -> aiohttp.ClientResponse:
        pairs = [(key, value) for key, value in (query or {}).items() if value]
        headers = {"Accept": _JSON, "Content-Type": content}
        try:
            request = await self._api.param_serialize(
                method,
                path,
                query_params=pairs,
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            # The number that call_api documents would limit the total only; this limits connecting as well.
            answer = await self._api.call_api(*request, _request_timeout=timeout)
            response: aiohttp.ClientResponse = answer.response
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            async with response:
                text = await response.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise RetryableError(f"{method} {path}: {_why(error)}") from error
        raise failure(response.status, text, f"{method} {path}")


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
