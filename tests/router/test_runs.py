from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from evenkeel.router.runs import LARGE_MESSAGE, RUN_BYTES, UNASSIGNED, TopicRun, run_seconds


def send(run: TopicRun, size: int) -> int:
    """What Producer.produce does."""
    run.sent += size
    return run.turn(size) if run.sent > run.limit else run.partition


def test_without_weights_the_client_decides_and_bytes_are_counted() -> None:
    run = TopicRun(0.5)
    assert {send(run, 1000) for _ in range(2000)} == {UNASSIGNED}
    assert run.bytes == 2_000_000
    assert not run.routed


def test_small_messages_stay_together_for_a_run() -> None:
    run = TopicRun(0.5)
    run.follow([1, 1, 1])
    sent = [send(run, 1024) for _ in range(3 * RUN_BYTES // 1024)]
    changes = sum(a != b for a, b in pairwise(sent))
    assert changes == 2
    assert set(Counter(sent).values()) == {RUN_BYTES // 1024}


def test_a_large_message_is_a_run_of_its_own() -> None:
    run = TopicRun(0.5)
    run.follow([2, 1])
    counts = Counter(send(run, LARGE_MESSAGE) for _ in range(300))
    assert abs(counts[0] - 200) <= 2


def test_bytes_count_not_messages() -> None:
    run = TopicRun(0.5)
    run.follow([1, 1])
    volume: Counter[int] = Counter()
    for i in range(600):
        size = LARGE_MESSAGE * (3 if i % 2 else 1)
        volume[send(run, size)] += size
    assert abs(volume[0] - volume[1]) <= 4 * LARGE_MESSAGE


def test_a_run_in_progress_is_finished_when_weights_change() -> None:
    run = TopicRun(0.5)
    run.follow([1, 1])
    first = send(run, 1000)
    run.follow([1, 3])
    assert send(run, 1000) == first


def test_a_run_ends_at_once_when_its_partition_may_not_be_used() -> None:
    run = TopicRun(0.5)
    run.follow([1, 1])
    first = send(run, 1000)
    run.follow([0.0 if p == first else 1.0 for p in range(2)])
    assert send(run, 1000) == 1 - first


def test_weights_taken_away_hand_back_to_the_client() -> None:
    run = TopicRun(0.5)
    run.follow([1, 1])
    send(run, 1000)
    run.follow(None)
    assert send(run, 1000) == UNASSIGNED
    assert run.bytes == 2000
    run.follow([1, 1])
    assert send(run, 1000) != UNASSIGNED


def test_nobody_waits_for_a_schedule_that_is_being_made() -> None:
    run = TopicRun(0.5)
    run.follow([1, 1])
    first = send(run, LARGE_MESSAGE)
    with run._lock:
        assert send(run, LARGE_MESSAGE) == first
    assert send(run, LARGE_MESSAGE) != first
    assert run.bytes == 3 * LARGE_MESSAGE


def test_a_run_expires_after_its_time() -> None:
    run = TopicRun(0.5)
    run.follow([1, 1])
    send(run, 1000)
    run.expire(100.0)
    run.expire(100.0 + 1.5 * run.seconds)
    send(run, 1000)
    assert run.runs == 1
    run.expire(100.0 + 2.5 * run.seconds)
    send(run, 1000)
    assert run.runs == 2


def test_runs_grow_to_the_size_asked_for() -> None:
    run = TopicRun(0.5)
    run.run_bytes = 4 * RUN_BYTES
    run.follow([1, 1])
    sent = [send(run, 1024) for _ in range(4 * RUN_BYTES // 1024)]
    assert len(set(sent)) == 1


@pytest.mark.parametrize(
    ("linger", "round_trip", "seconds"),
    [
        (0.005, None, 0.2),
        (0.005, 0.015, 0.2),
        (0.005, 0.03, 0.05),
        (0.005, 5.0, 0.02),
        (0.0, None, 0.2),
        (0.02, 0.04, 0.8),
        (5.0, None, 1.0),
    ],
)
def test_runs_are_forty_batches_and_shorter_where_brokers_are_slow(
    linger: float, round_trip: float | None, seconds: float
) -> None:
    assert run_seconds(linger, round_trip) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("partitions", "seconds"), [(12, 0.2), (60, 0.2), (120, 0.1), (240, 0.05), (9000, 0.05)]
)
def test_with_many_partitions_runs_are_shorter_so_that_each_has_its_turn(
    partitions: int, seconds: float
) -> None:
    run = TopicRun(0.5)
    run.follow([1] * partitions)
    run.adapt(1_000_000, 0.2, 0)
    assert run.seconds == pytest.approx(seconds)
    assert run.run_bytes == pytest.approx(1_000_000 * seconds)


@pytest.mark.parametrize(
    ("rate", "run_bytes"), [(2e6, 400_000), (5e6, 1_000_000), (10e6, RUN_BYTES), (40e6, 2_000_000)]
)
def test_of_a_quick_writer_a_run_is_no_longer_than_a_mebibyte_or_ten_delays(
    rate: float, run_bytes: int
) -> None:
    run = TopicRun(0.5)
    run.follow([1] * 12)
    run.adapt(rate, 0.2, 0)
    assert run.run_bytes == pytest.approx(run_bytes)


def test_the_stride_follows_the_length_of_runs() -> None:
    run = TopicRun(0.5)
    run.run_bytes = 10_000
    run.follow([1, 1])
    for _ in range(100):
        send(run, 1000)
    assert run._stride == 10_000
    run.adapt(1_000_000, 0.05, 0)
    for _ in range(1000):
        send(run, 1000)
    run.adapt(1_000_000, 0.05, 0)
    assert run._stride == pytest.approx(50_000, rel=0.1)
