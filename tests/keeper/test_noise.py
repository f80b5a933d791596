from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.keeper.noise import FillNoise
from tests.support.snapshots import broker, cluster, partitions_of

TOTAL = 1_000_000_000


def snapshot(*fills: float) -> ClusterSnapshot:
    brokers = [broker(i, TOTAL, round(TOTAL * fill)) for i, fill in enumerate(fills)]
    return cluster(brokers, partitions_of("t", [(i,) for i in range(len(fills))]))


def fill(one: ClusterSnapshot, number: int = 0) -> float:
    (entry,) = one.brokers[number].log_dirs
    assert entry.usable_bytes is not None
    return 1 - entry.usable_bytes / TOTAL


def steady(noise: FillNoise, value: float) -> float:
    now = snapshot(value)
    noise.observe(now)
    return fill(noise.steady(now))


def jitter(sd: float, count: int = 200, slope: float = 0.0, seed: int = 7) -> list[float]:
    source = random.Random(seed)
    return [0.5 + slope * i + source.gauss(0, sd) for i in range(count)]


@pytest.mark.parametrize("slope", [0.0, 0.001])
def test_noise_is_measured_beside_growth(slope: float) -> None:
    noise = FillNoise()
    for value in jitter(0.01, 40, slope):
        noise.observe(snapshot(value))
    assert noise.betas(snapshot(0.5), ["t"])["t"] == pytest.approx(3 / 0.01, rel=0.5)


def test_a_segment_that_goes_as_foreseen_is_no_jitter() -> None:
    noise = FillNoise()
    for number in range(80):
        there = 0.02 * (number % 5)
        now = snapshot(0.5 + there)
        going = replace(now.partitions[0], expiring_bytes=round(TOTAL * there))
        now = replace(now, partitions=(going,))
        noise.observe(now)
        assert fill(noise.steady(now)) == pytest.approx(0.5 + there, abs=1e-6)
    assert noise.betas(now, ["t"]) == {"t": 500.0}


def test_quiet_disks_leave_the_weights_as_sharp_as_they_are() -> None:
    noise = FillNoise()
    for value in jitter(0.0001, 40):
        noise.observe(snapshot(value))
    assert noise.betas(snapshot(0.5), ["t", "other"]) == {"t": 500.0, "other": 500.0}


def test_only_the_volumes_of_a_topic_count() -> None:
    noise = FillNoise()
    for value in jitter(0.02, 40):
        noise.observe(snapshot(0.5, value))
    one = snapshot(0.5, 0.5)
    one = replace(one, partitions=(one.partitions[0], replace(one.partitions[1], topic="u", partition=0)))
    found = noise.betas(one, ["t", "u"])
    assert found["t"] == 500.0
    assert found["u"] < 250.0


def test_in_the_beginning_nothing_is_taken_out() -> None:
    noise = FillNoise()
    for value in jitter(0.05, 8):
        assert steady(noise, value) == pytest.approx(value, abs=1e-6)


def test_jitter_is_taken_out() -> None:
    noise = FillNoise()
    seen = [steady(noise, value) for value in jitter(0.002)][100:]
    moves = sum(abs(b - a) > 1e-4 for a, b in itertools.pairwise(seen))
    assert moves < len(seen) / 5
    assert max(seen) - min(seen) < 0.002
    assert sum(seen) / len(seen) == pytest.approx(0.5, abs=0.001)


def test_growth_and_jumps_are_followed_at_once() -> None:
    noise = FillNoise()
    for value in jitter(0.002, 60):
        steady(noise, value)
    for i in range(60):
        assert steady(noise, 0.5 + 0.005 * i) == pytest.approx(0.5 + 0.005 * i, abs=0.01)


def test_a_topic_that_is_deleted_is_no_noise() -> None:
    noise = FillNoise()
    for value in jitter(0.002, 60):
        steady(noise, value)
    before = noise.betas(snapshot(0.5), ["t"])["t"]
    for value in jitter(0.002, 20, seed=8):
        assert steady(noise, value - 0.3) == pytest.approx(0.2, abs=0.01)
    assert noise.betas(snapshot(0.2), ["t"])["t"] == pytest.approx(before, rel=0.3)


def test_disks_that_fill_within_minutes_are_followed_at_once() -> None:
    noise = FillNoise()
    for _ in range(60):
        steady(noise, 0.3)
    for value in (0.38, 0.46, 0.54, 0.3, 0.38, 0.46, 0.54):
        assert steady(noise, value) == pytest.approx(value, abs=1e-6)
    assert noise.betas(snapshot(0.3), ["t"]) == {"t": 500.0}


def test_fills_without_noise_are_as_measured() -> None:
    noise = FillNoise()
    for i in range(60):
        assert steady(noise, 0.3 + 0.001 * i) == pytest.approx(0.3 + 0.001 * i, abs=1e-5)


def test_answers_that_are_only_repeated_and_unknown_sizes_are_left_alone() -> None:
    noise = FillNoise()
    for value in jitter(0.02, 40):
        now = snapshot(value)
        old = replace(now, brokers=(replace(now.brokers[0], measured_at_ms=1),))
        noise.observe(old)
        assert noise.steady(old) == old
    gone = cluster([broker(0, None, None)], ())
    noise.observe(gone)
    assert noise.steady(gone) == gone


def test_directories_that_are_gone_are_forgotten() -> None:
    noise = FillNoise()
    for value in jitter(0.02, 40):
        noise.observe(snapshot(value))
    noise.observe(cluster([broker(5, TOTAL, 0)], ()))
    assert noise.betas(snapshot(0.5), ["t"]) == {"t": 500.0}
