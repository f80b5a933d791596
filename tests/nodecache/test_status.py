"""What a cache writes about itself, and when it writes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from evenkeel.api.node_cache import NodeCache
from evenkeel.domain.nodes import HeldRevision, HoldState
from evenkeel.nodecache.files import DiskSpace
from evenkeel.nodecache.status import CacheFacts, build_apply, build_status
from evenkeel.reasons import Reason
from tests.support.revisions import UID

THEN, NOW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
HELD = HeldRevision(UID, "0" * 64, HoldState.WARM, 3, 3, 3000)
FACTS = CacheFacts("http://10.0.0.1:7443", DiskSpace(1000, 799), (HELD,))


def node_cache(status: dict[str, Any] | None = None) -> NodeCache:
    meta = {"name": "node-1", "uid": "object-uid", "generation": 4}
    return NodeCache.model_validate(
        {
            "metadata": meta,
            "spec": {"nodeUID": "7c1d2f9e-0000-4000-8000-00000000000a"},
            "status": status or {},
        }
    )


def test_a_healthy_cache_is_ready() -> None:
    status = build_status(FACTS, node_cache(), NOW)
    assert (status.observed_generation, status.endpoint) == (4, "http://10.0.0.1:7443")
    assert (status.disk_total_bytes, status.disk_usable_bytes) == (1000, 790)
    assert [item.domain() for item in status.revisions] == [HELD]
    (ready,) = status.conditions
    assert (ready.type, ready.status, ready.reason, ready.observed_generation) == (
        "Ready",
        "True",
        "Ready",
        4,
    )


def test_a_sick_disk_is_not_ready_and_says_why() -> None:
    facts = CacheFacts("http://10.0.0.1:7443", None, (), "store /x: the cache's disk failed")
    (ready,) = build_status(facts, node_cache(), NOW).conditions
    assert (ready.status, ready.reason) == ("False", Reason.CACHE_UNAVAILABLE)
    assert ready.message == "store /x: the cache's disk failed"


def test_the_same_facts_give_the_same_status() -> None:
    first = build_status(FACTS, node_cache(), THEN)
    stored = node_cache(build_apply(node_cache(), first)["status"])
    assert build_status(FACTS, stored, NOW) == stored.status


def test_only_a_change_of_the_condition_moves_its_time() -> None:
    stored = node_cache(build_status(FACTS, node_cache(), THEN).dump())
    sick = build_status(CacheFacts("http://10.0.0.1:7443", None, (), "gone"), stored, NOW)
    assert sick.conditions[0].last_transition_time == NOW


def test_the_apply_names_the_very_object() -> None:
    body = build_apply(node_cache(), build_status(FACTS, node_cache(), NOW))
    assert body["metadata"] == {"name": "node-1", "uid": "object-uid"}
    assert body["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-02T00:00:00Z"
