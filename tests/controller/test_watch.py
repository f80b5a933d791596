from __future__ import annotations

from typing import Any

import pytest

from evenkeel.controller import watch
from evenkeel.controller.handlers import build_registry, connection_info
from evenkeel.controller.health import Metrics
from evenkeel.controller.store import Store
from evenkeel.controller.watch import Relist
from evenkeel.errors import RetryableError
from evenkeel.kube.client import Credentials, Kube
from evenkeel.kube.failures import KindAbsentError
from evenkeel.kube.resources import OWN_KINDS
from tests.support.world import topic


class Lists(Kube):
    def __init__(self) -> None:
        self.topics: list[dict[str, Any]] | Exception = []

    async def list_with_version(self, resource: Any, **_: Any) -> Any:
        if resource.kind != "BalancedTopic":
            return [], "100"
        if isinstance(self.topics, Exception):
            raise self.topics
        return self.topics, "100"


class Rig:
    def __init__(self) -> None:
        self.kube = Lists()
        self.store = Store(lambda *_: ())
        self.restarts = 0
        self.relist = Relist(self.kube, self.store, self.restart, Metrics(), 60, 2)

    def restart(self) -> None:
        self.restarts += 1

    async def round(self) -> bool:
        return all([await self.relist._one(resource) for resource in OWN_KINDS])

    def known(self) -> set[str]:
        return {item["metadata"]["name"] for item in self.store.all("BalancedTopic")}


def stored(name: str, version: int = 1) -> dict[str, Any]:
    item = topic(name)
    return {**item, "metadata": {**item["metadata"], "uid": f"uid-{name}", "resourceVersion": str(version)}}


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(watch, "SETTLE_SECONDS", 0.0)
    return Rig()


async def test_first_list_fills_the_store_without_restart(rig: Rig) -> None:
    rig.kube.topics = [stored("a")]
    assert await rig.round()
    assert rig.known() == {"a"}
    assert rig.restarts == 0
    assert rig.store.is_listed([one.kind for one in OWN_KINDS])


async def test_ghosts_go_and_missed_come_and_the_watch_is_restarted(rig: Rig) -> None:
    rig.kube.topics = [stored("a")]
    await rig.round()
    rig.kube.topics = [stored("b")]
    await rig.round()
    assert rig.known() == {"b"}
    assert rig.restarts == 1


async def test_change_that_the_watch_lost_is_found(rig: Rig) -> None:
    rig.kube.topics = [stored("a")]
    await rig.round()
    rig.kube.topics = [stored("a", 7)]
    await rig.round()
    (item,) = rig.store.all("BalancedTopic")
    assert item["metadata"]["resourceVersion"] == "7"
    assert rig.restarts == 1


async def test_outage_changes_nothing(rig: Rig) -> None:
    rig.kube.topics = [stored("a")]
    await rig.round()
    rig.kube.topics = RetryableError("away")
    assert not await rig.round()
    assert rig.known() == {"a"}


async def test_absent_kind_is_empty_and_its_coming_restarts_the_watch(rig: Rig) -> None:
    rig.kube.topics = KindAbsentError("404")
    await rig.round()
    assert not rig.store.is_listed(["BalancedTopic"])
    rig.kube.topics = [stored("a")]
    await rig.round()
    assert rig.restarts == 1
    assert rig.known() == {"a"}
    rig.kube.topics = KindAbsentError("404")
    await rig.round()
    assert rig.known() == set()


def test_kopf_connects_as_we_do() -> None:
    found = connection_info(Credentials("https://api", "/ca", "bearer abc", None, None))
    assert (found.server, found.scheme, found.token) == ("https://api", "Bearer", "abc")
    plain = connection_info(Credentials("https://api", None, None, "/c", "/k"))
    assert (plain.scheme, plain.token, plain.certificate_path) == (None, None, "/c")


def test_registry_is_new_each_time() -> None:
    def feed(*_: Any) -> None:
        return None

    def login() -> Credentials:
        return Credentials("https://api", None, None, None, None)

    first, second = (build_registry(OWN_KINDS, feed, login) for _ in range(2))
    assert first is not second
    assert len(list(first._watching._handlers)) == len(OWN_KINDS)
