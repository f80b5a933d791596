from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.snapshot import Topic
from evenkeel.planning.retention import (
    Horizons,
    Log,
    Retention,
    expiring_bytes,
    expiry_cutoff_ms,
    kept_bytes,
    look_ahead_seconds,
    topic_retention,
)

HOUR = 3600.0
DAY = Retention(age_ms=86_400_000)


@pytest.mark.parametrize(
    ("horizon", "retention", "observed", "seconds"),
    [
        (3 * HOUR, Retention(), None, HOUR),
        (HOUR, DAY, None, 12 * HOUR),
        (72 * HOUR, DAY, None, 24 * HOUR),
        (HOUR, DAY, 600.0, 600.0),
        (3 * HOUR, Retention(), 7200.0, HOUR),
        (HOUR, DAY, -5.0, 0.0),
    ],
)
def test_a_topic_is_looked_at_over_half_its_retention_as_far_as_it_was_watched(
    horizon: float, retention: Retention, observed: float | None, seconds: float
) -> None:
    assert look_ahead_seconds(horizon, retention, observed) == seconds


def test_horizons_are_those_of_the_topic() -> None:
    horizons = Horizons(default_seconds=3 * HOUR, topics={"t": 6 * HOUR}, observed_seconds=1.5 * HOUR)
    assert horizons.seconds("t", Retention()) == 1.5 * HOUR
    assert horizons.seconds("other", Retention()) == HOUR


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(), 1000.0),
        (Retention(age_ms=40_000), 400.0),
        (Retention(age_ms=40_000, delete_delay_ms=10_000), 500.0),
        (Retention(age_ms=40_000, segment_bytes=50), 400.0 + 2 * 25),
        (Retention(limit_bytes=120), 240.0),
        (Retention(limit_bytes=120, segment_bytes=20), 240.0 + 2 * 10),
        (Retention(age_ms=40_000, limit_bytes=1 << 40), 400.0),
        (Retention(age_ms=40_000, segment_bytes=1 << 30, segment_ms=10_000), 400.0 + 2 * 25),
        (Retention(age_ms=40_000, segment_bytes=1 << 30), 1000.0),
    ],
)
def test_bytes_that_come_and_go_within_the_time_do_not_count(retention: Retention, kept: float) -> None:
    assert kept_bytes(10.0, 100.0, retention, 2) == pytest.approx(kept)


@pytest.mark.parametrize(
    ("log", "retention", "freed"),
    [
        (Log(1000, 100, 25), Retention(), 0),
        (Log(1000, 100, 25), DAY, 250),
        (Log(1000, 100, None), DAY, None),
        (Log(1000, 0, None), DAY, 0),
        (Log(1000, 100, 25), replace(DAY, segment_bytes=100), 200),
        (Log(1000, 100, 3), replace(DAY, segment_bytes=100), 0),
        (Log(150, 100, 90), replace(DAY, segment_bytes=100), 85),
        (Log(80, 100, 90), replace(DAY, segment_bytes=100), 0),
        # The segment that is written to stays, unless it is closed in time or nobody writes to it.
        (Log(150, 100, 100, 0.0), replace(DAY, segment_bytes=100), 150),
        (Log(150, 100, 100, None), replace(DAY, segment_bytes=100), 100),
        (Log(150, 100, 100, 0.0001), replace(DAY, segment_bytes=100), 100),
        (Log(150, 100, 100, 0.01), replace(DAY, segment_bytes=100), 150),
        (Log(1000, 100, 0), Retention(limit_bytes=700), 300),
        (Log(1000, 100, 0), Retention(limit_bytes=2000), 0),
        (Log(1000, 100, 0), Retention(limit_bytes=700, segment_bytes=100), 250),
        (Log(1000, 100, 90), Retention(age_ms=86_400_000, limit_bytes=700), 900),
    ],
)
def test_expiring_bytes(log: Log, retention: Retention, freed: int | None) -> None:
    assert expiring_bytes(log, retention, 2 * 86_400.0) == freed


def test_a_log_at_its_limit_gives_up_what_it_takes() -> None:
    retention = Retention(limit_bytes=1000, segment_bytes=100)
    log = Log(1050, 100, 0, 0.01)
    freed = expiring_bytes(log, retention, 10_000.0)
    assert freed is not None
    assert log.size - freed + kept_bytes(0.01, 10_000.0, retention, 1) == pytest.approx(1050)


def test_records_count_as_gone_once_their_files_are() -> None:
    retention = Retention(age_ms=10_000, delete_delay_ms=60_000)
    assert expiry_cutoff_ms(1_000_000, 100.0, retention) == 1_000_000 + 100_000 - 10_000 - 60_000
    assert expiry_cutoff_ms(1_000_000, 100.0, Retention()) is None


@pytest.mark.parametrize(
    ("topic", "retention"),
    [
        (None, Retention()),
        (Topic("t", cleanup_policy="compact", retention_ms=5), Retention()),
        (Topic("t", retention_ms=-1, retention_bytes=-1), Retention()),
        (
            Topic(
                "t", retention_ms=5, retention_bytes=6, segment_bytes=7, segment_ms=8, file_delete_delay_ms=9
            ),
            Retention(5, 6, 7, 8, 9),
        ),
        (Topic("t", cleanup_policy="compact,delete", retention_ms=0), Retention(age_ms=0)),
    ],
)
def test_settings_of_a_topic(topic: Topic | None, retention: Retention) -> None:
    assert topic_retention(topic) == retention


sizes = st.integers(0, 1 << 50)


@given(
    st.builds(
        Log,
        sizes,
        st.integers(0, 1 << 40),
        st.none() | st.integers(0, 1 << 40),
        st.none() | st.floats(0, 1e9),
    ),
    st.builds(
        Retention,
        st.none() | st.integers(0, 1 << 40),
        st.none() | sizes,
        st.integers(0, 1 << 40),
        st.none() | st.integers(0, 1 << 40),
        st.integers(0, 1 << 40),
    ),
    st.floats(0, 1e9),
)
def test_never_more_expires_than_there_is(log: Log, retention: Retention, seconds: float) -> None:
    freed = expiring_bytes(log, retention, seconds)
    assert freed is None or 0 <= freed <= log.size


@given(st.floats(1e3, 1e7), st.floats(600, 86_400), st.floats(0.01, 3), st.integers(1, 1 << 28))
def test_a_steady_log_stays_as_large_as_it_is(rate: float, age: float, part: float, segment: int) -> None:
    """What comes within any horizon is what goes, once a log has reached its size."""
    retention = Retention(age_ms=round(age * 1000), segment_bytes=segment)
    seconds = age * part
    size = round(rate * age + segment / 2)
    old = min(1.0, seconds * rate / size) if part < 1 else 1.0
    log = Log(size, 10_000_000, round(10_000_000 * old), rate)
    freed = expiring_bytes(log, retention, seconds)
    assert freed is not None
    after = size - freed + kept_bytes(rate, seconds, retention, 1)
    assert after == pytest.approx(size, abs=segment + rate * 0.01 + 1)
