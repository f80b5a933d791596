from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from evenkeel import names
from evenkeel.controller import triggers
from evenkeel.controller.optional import KafkaTopics
from evenkeel.controller.store import Store
from evenkeel.errors import ConfigurationError, RetryableError
from evenkeel.kube.client import Kube
from evenkeel.kube.failures import KindAbsentError
from evenkeel.reasons import Reason

STARTING = "starting"
"""An API server that serves no custom kind yet."""
Step = list[dict[str, Any]] | Exception | str | None


def stored(name: str, version: int = 1) -> dict[str, Any]:
    meta = {"name": name, "namespace": "strimzi", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaTopic", "metadata": meta}


class Script:
    """Each step is one life of the kind: None absent, a list that is then cut off, or an error."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.seen: list[set[str]] = []
        self.starting = False
        self.store = Store(triggers.affected)

    async def find_version(self, group: str, _plural: str) -> str | None:
        if group == names.API_GROUP:
            return None if self.starting else names.API_VERSION
        self._look()
        if not self._steps:
            raise asyncio.CancelledError
        if self._steps[0] in (None, STARTING):
            self.starting = self._steps.pop(0) == STARTING
            return None
        return "v1"

    async def watch(
        self, _resource: Any, *, on_listed: Callable[[], None], optional: bool
    ) -> AsyncIterator[Any]:
        assert optional
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        assert not isinstance(step, str)
        for item in step or ():
            yield "ADDED", item
        on_listed()
        self._look()
        raise KindAbsentError("404")

    def _look(self) -> None:
        self.seen.append({one["metadata"]["name"] for one in self.store.all("KafkaTopic")})


async def play(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.controller.optional.FORBIDDEN_SECONDS", 0.0)
    with pytest.raises(asyncio.CancelledError):
        await KafkaTopics(cast("Kube", script), script.store, 0.0).run()


async def test_kind_that_is_not_installed_counts_as_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(None)
    await play(script, monkeypatch)
    assert script.store.is_listed(["KafkaTopic"])


async def test_kind_that_comes_and_goes_and_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(None, [stored("a")], None, [stored("b", 7)])
    await play(script, monkeypatch)
    assert script.seen == [set(), set(), {"a"}, {"a"}, set(), {"b"}, {"b"}]


async def test_an_api_server_that_is_starting_makes_no_topic_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script([stored("a")], STARTING, STARTING, [stored("a")])
    await play(script, monkeypatch)
    assert script.seen[1:] == [{"a"}] * 6
    script = Script(STARTING)
    await play(script, monkeypatch)
    assert not script.store.is_listed(["KafkaTopic"])


async def test_an_api_server_that_is_away_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(RetryableError("away"))
    await play(script, monkeypatch)
    assert not script.store.is_listed(["KafkaTopic"])


async def test_a_right_that_is_taken_away_makes_no_topic_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = ConfigurationError("403", reason=Reason.NOT_PERMITTED)
    script = Script(forbidden)
    script.store.put("ADDED", stored("a"))
    await play(script, monkeypatch)
    assert script.store.is_listed(["KafkaTopic"])
    assert script.seen[-1] == {"a"}


async def test_what_went_while_nobody_looked_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script([stored("b")])
    script.store.put("ADDED", stored("a"))
    await play(script, monkeypatch)
    assert script.seen == [{"a"}, {"b"}, {"b"}]
