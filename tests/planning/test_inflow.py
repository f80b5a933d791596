from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from evenkeel.domain.exchange import TopicRouting
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, Incoming, LogDir, Topic
from evenkeel.planning.inflow import LEAST_ROOM, apply_floor, base_bytes, gather_inflow, limit_inflow
from evenkeel.planning.space import build_space
from tests.support.snapshots import broker, cluster, partitions_of

HOUR = TopicRouting(horizon_seconds=3 * 3600)
"""Looked at an hour ahead."""


def snapshot(*incoming: Incoming, topic: Topic | None = None) -> ClusterSnapshot:
    disks = [broker(i, 1_000_000, 100_000) for i in range(3)]
    parts = partitions_of("t", [(0, 1), (1, 2), (2, 0)], [1000, 1000, 1000])
    return cluster(disks, parts, incoming, [topic] if topic else [])


@pytest.mark.parametrize(
    ("incoming", "topic", "steerable", "unsteered"),
    [
        (Incoming("t", planned_bytes=500), None, 500, 0),
        (Incoming("t", planned_bytes=500, bytes_per_second=9.0), None, 500, 0),
        (Incoming("t", bytes_per_second=1.0), None, 3600, 0),
        (Incoming("t", bytes_per_second=1.0, steered_percent=25), None, 900, 2700),
        (Incoming("t", bytes_per_second=1.0), Topic("t", retention_ms=36_000_000), 18_000, 0),
        (Incoming("t", bytes_per_second=1.0), Topic("t", retention_ms=600_000), 600, 0),
        (Incoming("t", bytes_per_second=1.0), Topic("t", retention_ms=-1), 3600, 0),
        (Incoming("t", bytes_per_second=1.0), Topic("t", retention_bytes=100), 300, 0),
    ],
)
def test_expected_bytes(incoming: Incoming, topic: Topic | None, steerable: float, unsteered: float) -> None:
    found = gather_inflow(snapshot(incoming, topic=topic), {"t": HOUR})["t"]
    assert (found.steerable, found.unsteered) == (steerable, unsteered)


def test_unknown_inflow_is_not_guessed() -> None:
    assert gather_inflow(snapshot(Incoming("t")), {"t": HOUR}) == {}


def limited(one: ClusterSnapshot) -> dict[str, tuple[float, float]]:
    found = limit_inflow(gather_inflow(one, {"t": HOUR}), one, build_space(one), 0.85)
    return {topic: (inflow.steerable, inflow.unsteered) for topic, inflow in found.items()}


def test_what_the_disks_have_room_for_is_expected_as_it_is() -> None:
    assert limited(snapshot(Incoming("t", bytes_per_second=100.0))) == {"t": (360_000, 0)}


def test_no_more_is_expected_than_fills_the_disks() -> None:
    """Two replicas of 3.6 MB, and room for 3 x 0.85 MB - 3 x 0.1 MB."""
    found = limited(snapshot(Incoming("t", bytes_per_second=1000.0, steered_percent=75)))
    assert found["t"] == pytest.approx((0.75 * 1_125_000, 0.25 * 1_125_000))


def test_expiring_bytes_make_room() -> None:
    one = snapshot(Incoming("t", bytes_per_second=1000.0))
    freed = replace(one, partitions=tuple(replace(p, expiring_bytes=1000) for p in one.partitions))
    assert limited(freed)["t"] == pytest.approx((1_125_000 + 3000, 0))


def test_planned_bytes_are_not_cut_and_take_their_room_first() -> None:
    planned = partitions_of("p", [(0, 1)], [1000])
    one = snapshot(
        Incoming("t", bytes_per_second=1000.0), Incoming("p", planned_bytes=1_000_000, steered_percent=0)
    )
    found = limited(replace(one, partitions=(*one.partitions, *planned)))
    assert found["p"] == (0, 1_000_000)
    assert found["t"] == pytest.approx((125_000, 0))


def test_full_disks_still_get_bytes_to_level_with() -> None:
    disks = [broker(i, 1_000_000, 900_000) for i in range(3)]
    one = replace(snapshot(Incoming("t", bytes_per_second=1000.0)), brokers=tuple(disks))
    assert limited(one)["t"] == pytest.approx((LEAST_ROOM * 3_000_000 / 2, 0))


def base(one: ClusterSnapshot, *, routed: bool = True) -> list[float]:
    inflow = gather_inflow(one, {"t": HOUR} if routed else {})
    return [float(size) for size in base_bytes(one, build_space(one), inflow)]


def test_topics_that_are_not_routed_are_all_unsteered() -> None:
    one = snapshot(Incoming("t", planned_bytes=3000))
    assert base(one) == [100_000] * 3
    assert base(one, routed=False) == [102_000] * 3


def test_unsteered_inflow_goes_where_it_was_seen() -> None:
    one = snapshot(Incoming("t", planned_bytes=3000))
    seen = [
        replace(p, bytes_per_second=rate) for p, rate in zip(one.partitions, (2.0, 1.0, 0.0), strict=True)
    ]
    assert base(replace(one, partitions=tuple(seen)), routed=False) == [102_000, 103_000, 101_000]


def test_expiring_bytes_leave_every_replica() -> None:
    one = snapshot()
    parts = (replace(one.partitions[0], expiring_bytes=400), *one.partitions[1:])
    assert base(replace(one, partitions=parts)) == [99_600, 99_600, 100_000]


@pytest.mark.parametrize(("adding_bytes", "expected"), [(None, 900), (700, 700)])
def test_bytes_still_inbound_by_moves_count(adding_bytes: int | None, expected: int) -> None:
    one = snapshot()
    moving = replace(
        one.partitions[0],
        replicas=(0, 1, 2),
        adding=(2,),
        replica_bytes={0: 1000, 1: 1000, 2: 100},
        adding_bytes=adding_bytes,
    )
    assert base(replace(one, partitions=(moving, *one.partitions[1:]))) == [
        100_000,
        100_000,
        100_000 + expected,
    ]


def test_a_copy_between_directories_fills_its_target_and_frees_its_source() -> None:
    one = snapshot()
    two = Broker(0, log_dirs=(LogDir("/a", 1_000_000, 900_000), LogDir("/b", 1_000_000, 900_000)))
    copying = replace(one.partitions[0], replica_dirs={0: "/a"}, future_dirs={0: "/b"}, future_bytes={0: 400})
    rest = tuple(replace(other, replica_dirs={0: "/a"}) for other in one.partitions[1:])
    found = base(replace(one, brokers=(two, *one.brokers[1:]), partitions=(copying, *rest)))
    assert found == [99_000, 100_600, 100_000, 100_000]


def test_the_floor_holds_for_unplanned_topics_together() -> None:
    one = snapshot(Incoming("t", bytes_per_second=0.0001))
    inflow = gather_inflow(one, {"t": HOUR})
    capacity = np.array([1000.0, 1000.0])
    noisy = np.array([402.0, 400.0])
    floor = 3 * 0.001 + 0.05 * math.exp(-((0.001 / 0.006) ** 2))
    assert apply_floor(inflow, ("t",), noisy, capacity) == {"t": pytest.approx(floor * 2000)}


def test_the_floor_is_for_noise_and_does_not_grow_with_an_imbalance() -> None:
    inflow = gather_inflow(snapshot(Incoming("t", bytes_per_second=0.0001)), {"t": HOUR})
    uneven = np.array([600.0, 200.0])
    floor = apply_floor(inflow, ("t",), uneven, np.array([1000.0, 1000.0]))
    assert floor == {"t": pytest.approx(3 * 0.003 * 2000)}


def test_planned_bytes_have_no_floor() -> None:
    inflow = gather_inflow(snapshot(Incoming("t", planned_bytes=50)), {"t": HOUR})
    uneven = np.array([600.0, 200.0])
    assert apply_floor(inflow, ("t",), uneven, np.array([1000.0, 1000.0])) == {"t": 50.0}
