from __future__ import annotations

from typing import Any

import pytest

from evenkeel import names
from evenkeel.controller.gates import build_affinity, build_release, datasets_of, view_pod
from evenkeel.controller.plan import Plan
from tests.controller.test_preload import cache_says, preloading
from tests.support.world import World, dataset, gated_pod, node

WARM = names.warm_label("uid-digits")


def released(plan: Plan) -> list[str]:
    return sorted(patch.name for patch in plan.patches if isinstance(patch.body, tuple))


def said(world: World) -> set[str]:
    return {saying.note.reason.value for saying in world.plan("Preload", "").sayings}


def two_nodes() -> World:
    return preloading(node("a", gpus=2), node("b", gpus=2))


def test_pods_of_one_controller_go_together_when_there_is_room() -> None:
    world = two_nodes()
    for name in ("rank-0", "rank-1"):
        world.add(gated_pod(name, "digits", owner="job-1", gpus=1))
    assert released(world.plan("Preload", "")) == []
    assert said(world) == {"NotWarm"}
    cache_says(world, "a", "Warm")
    assert released(world.plan("Preload", "")) == ["rank-0", "rank-1"]


def test_pods_wait_for_a_second_node_if_one_is_too_small() -> None:
    world = two_nodes()
    for name in ("rank-0", "rank-1"):
        world.add(gated_pod(name, "digits", owner="job-1", gpus=2))
    cache_says(world, "a", "Warm")
    assert released(world.plan("Preload", "")) == []
    cache_says(world, "b", "Warm")
    assert len(released(world.plan("Preload", ""))) == 2


def test_pods_without_gpus_spread_over_the_wanted_nodes() -> None:
    world = two_nodes()
    for name in ("rank-0", "rank-1", "rank-2"):
        world.add(gated_pod(name, "digits", owner="job-1"))
    cache_says(world, "a", "Warm")
    assert released(world.plan("Preload", "")) == []
    cache_says(world, "b", "Warm")
    assert len(released(world.plan("Preload", ""))) == 3


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("absent",), "DatasetNotFound"),
        (("plain",), "Disabled"),
        ((), "NothingToDo"),
        (("fresh",), "NotWarm"),
    ],
)
def test_reason_is_said_on_the_pod(asked: tuple[str, ...], reason: str) -> None:
    world = two_nodes()
    world.add(dataset("plain"))
    world.add(dataset("fresh", preload={"mode": "Preferred"}))
    world.add(gated_pod("rank", *asked))
    assert said(world) == {reason}
    assert released(world.plan("Preload", "")) == ([] if asked else ["rank"])


def test_pods_of_other_namespaces_do_not_find_it() -> None:
    world = two_nodes()
    cache_says(world, "a", "Warm")
    pod = gated_pod("rank", "digits")
    pod["metadata"]["namespace"] = "other"
    world.add(pod)
    assert said(world) == {"DatasetNotFound"}


def test_release_removes_our_gate_alone_and_is_guarded() -> None:
    gates = [{"name": "example.com/other"}, {"name": names.GATE_WARM}]
    pod = gated_pod("rank", "digits", schedulingGates=gates)
    pod["metadata"]["uid"] = "u1"
    operations: Any = build_release(pod, [WARM]).body
    assert operations[:3] == (
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": names.GATE_WARM},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    )


def test_affinity_only_narrows() -> None:
    mine = {"key": "zone", "operator": "In", "values": ["a"]}
    present = {
        "podAntiAffinity": {"x": 1},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [mine]},
                    {"matchFields": [{"key": "metadata.name"}]},
                ]
            }
        },
    }
    built = build_affinity(present, [WARM])
    terms = built["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    cache = {"key": names.LABEL_CACHE_NODE, "operator": "In", "values": ["true"]}
    assert [term["matchExpressions"] for term in terms] == [[mine, cache], [cache]]
    (preferred,) = built["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"][0]["key"] == WARM
    assert built["podAntiAffinity"] == {"x": 1}


def test_only_our_driver_counts() -> None:
    pod = gated_pod("rank", "digits")
    pod["spec"]["volumes"] += [
        {"name": "x", "csi": {"driver": "other", "volumeAttributes": {"dataset": "y"}}},
        {"name": "z", "emptyDir": {}},
    ]
    assert datasets_of(pod) == ("digits",)


def test_pods_without_our_gate_are_not_ours() -> None:
    assert view_pod(gated_pod("rank", schedulingGates=[{"name": "other"}])) is None
    leaving = gated_pod("rank", "digits")
    leaving["metadata"] |= {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert view_pod(leaving) is None
