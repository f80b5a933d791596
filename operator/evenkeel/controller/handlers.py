"""What kopf is told: every event of our kinds goes into the store, nothing else happens there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import kopf

from evenkeel.kube.client import Credentials
from evenkeel.kube.resources import Resource

Feed = Callable[[str, dict[str, Any]], None]
"""`(ADDED | MODIFIED | DELETED, object)`; called in kopf's thread."""


def build_registry(
    resources: Sequence[Resource], feed: Feed, login: Callable[[], Credentials]
) -> kopf.OperatorRegistry:
    """A registry of its own for each start: the global one would gather handlers over restarts."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def connect(**_: Any) -> kopf.ConnectionInfo:
        return connection_info(login())

    for resource in resources:
        _follow(registry, resource, feed)
    return registry


def connection_info(found: Credentials) -> kopf.ConnectionInfo:
    """The same access that our own client uses."""
    scheme, _, token = (found.authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=found.server,
        ca_path=found.ca_path,
        scheme=scheme.capitalize() or None,
        token=token or None,
        certificate_path=found.certificate_path,
        private_key_path=found.key_path,
    )


def build_settings() -> kopf.OperatorSettings:
    """Kopf as a mere watcher that reconnects within two seconds and never ends our process."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    # By default kopf kills the process ten minutes after it ended, even if we started it again.
    settings.process.ultimate_exiting_timeout = None
    settings.networking.error_backoffs = [0.2, 0.5, 1, 2, 2, 2, 2, 2, 2]
    settings.networking.connect_timeout = 3
    settings.networking.request_timeout = 20
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = 500
    settings.queueing.idle_timeout = 0.2
    settings.queueing.exit_timeout = 1
    return settings


def _follow(registry: kopf.OperatorRegistry, resource: Resource, feed: Feed) -> None:
    group, version = resource.group_version.split("/")

    # A coroutine, because kopf runs plain functions in a pool, where two events may overtake each other.
    @kopf.on.event(group, version, resource.plural, registry=registry, id=f"store-{resource.plural}")
    async def store(event: Any, **_: Any) -> None:
        feed(event["type"] or "ADDED", {**event["object"], **resource.header()})
