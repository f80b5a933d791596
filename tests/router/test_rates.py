from __future__ import annotations

import pytest

from evenkeel.router.rates import RateMeter


def feed(meter: RateMeter, seconds: range, per_second: int, start: int = 0) -> int:
    total = start
    for second in seconds:
        meter.add(float(second), total)
        total += per_second
    return total


def test_two_samples_make_a_rate() -> None:
    meter = RateMeter()
    assert meter.mean is None
    meter.add(0.0, 100)
    assert meter.mean is None
    meter.add(2.0, 300)
    assert meter.mean == 100


def test_the_mean_is_that_of_the_last_minute() -> None:
    meter = RateMeter()
    total = feed(meter, range(100), 10)
    feed(meter, range(100, 200), 50, total)
    assert meter.mean == pytest.approx(50)


def test_silence_before_writing_began_does_not_count() -> None:
    meter = RateMeter()
    feed(meter, range(50), 0)
    feed(meter, range(50, 53), 30)
    assert meter.mean == pytest.approx(30)


def test_short_pauses_count() -> None:
    meter = RateMeter()
    total = 0
    for second in range(120):
        meter.add(float(second), total)
        total += 100 if second % 5 == 0 else 0
    assert meter.mean == pytest.approx(20, rel=0.1)


def test_silence_ends_in_no_rate() -> None:
    meter = RateMeter()
    total = feed(meter, range(10), 100)
    feed(meter, range(10, 100), 0, total)
    assert meter.mean == 0


def test_a_burst_fades() -> None:
    meter = RateMeter()
    meter.add(0.0, 0)
    meter.add(1.0, 1000)
    meter.add(2.0, 1000)
    assert meter.burst == pytest.approx(900)


def test_a_clock_that_stands_still_changes_nothing() -> None:
    meter = RateMeter()
    feed(meter, range(3), 100)
    meter.add(2.0, 900)
    assert meter.mean == pytest.approx(100)
