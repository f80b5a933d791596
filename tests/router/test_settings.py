from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

from evenkeel.errors import InputError
from evenkeel.router.settings import (
    batch_bytes,
    collect_statistics,
    heartbeat_config,
    linger_seconds,
    reader_config,
    split_config,
)


def test_our_keys_never_reach_the_client() -> None:
    settings, rest = split_config(
        {"bootstrap.servers": "k:1", "evenkeel.topics": "a, b", "evenkeel.phase": 0.25}
    )
    assert rest == {"bootstrap.servers": "k:1"}
    assert settings.topics == ("a", "b")
    assert settings.phase == 0.25


def test_a_programs_own_random_numbers_stay_as_they_are() -> None:
    state = random.getstate()
    split_config({})
    assert random.getstate() == state


def test_phase_is_random_by_default() -> None:
    assert split_config({})[0].phase != split_config({})[0].phase


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("phase", 2),
        ("phase", "x"),
        ("heartbeat.ms", -1),
        ("message.bytes", None),
        ("colour", "red"),
        ("topics", 5),
        ("topics", [5]),
    ],
)
def test_bad_settings_are_named(key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"evenkeel.{key}"):
        split_config({f"evenkeel.{key}": value})


def test_own_clients_take_security_and_nothing_of_the_users_records() -> None:
    config = {
        "bootstrap.servers": "k:1",
        "security.protocol": "SASL_SSL",
        "sasl.username": "u",
        "ssl.ca.pem": "PEM",
        "transactional.id": "x",
        "enable.idempotence": True,
        "partitioner": "murmur2",
        "on_delivery": print,
    }
    for derived in (reader_config(config, "r"), heartbeat_config(config, "r")):
        assert derived["sasl.username"] == "u"
        assert not {"transactional.id", "enable.idempotence", "partitioner", "on_delivery"} & set(derived)
        assert derived["allow.auto.create.topics"] is False


@pytest.mark.parametrize(
    ("config", "seconds"), [({}, 0.005), ({"linger.ms": "50"}, 0.05), ({"queue.buffering.max.ms": 20}, 0.02)]
)
def test_linger(config: dict[str, object], seconds: float) -> None:
    assert linger_seconds(config) == seconds


def test_batch() -> None:
    assert batch_bytes({}) == 1_000_000
    assert batch_bytes({"batch.size": "65536"}) == 65_536
    assert batch_bytes({"batch.size": "many"}) == 1_000_000


def collect(config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The configuration with our ears in it, and what they hear of a text."""
    heard: list[str] = []
    collect_statistics(config, heard.append)
    if "stats_cb" in config:
        config["stats_cb"]("text")
    return config, heard


def test_statistics_come_every_ten_seconds_and_to_us_alone_where_nobody_asked() -> None:
    theirs: list[str] = []
    for config in ({}, {"stats_cb": theirs.append}):
        collected, heard = collect(config)
        assert collected["statistics.interval.ms"] == 10_000
        assert heard == ["text"]
    assert theirs == []  # without an interval the client would not have called it


def test_the_users_callback_gets_the_same_text_at_its_own_interval() -> None:
    theirs: list[str] = []
    collected, heard = collect({"stats_cb": theirs.append, "statistics.interval.ms": 500})
    assert collected["statistics.interval.ms"] == 500
    assert heard == ["text"]
    assert theirs[0] is heard[0]


def test_what_a_users_callback_raises_is_the_users() -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        collect({"stats_cb": fail, "statistics.interval.ms": 500})


@pytest.mark.parametrize("config", [{"stats_cb": 5}, {"stats_cb": 5, "statistics.interval.ms": 1}])
def test_a_callback_that_is_none_is_left_for_the_client_to_refuse(config: dict[str, Any]) -> None:
    collect_statistics(config, print)
    assert config["stats_cb"] == 5


def test_statistics_that_are_switched_off_stay_off() -> None:
    assert collect({"statistics.interval.ms": 0})[0]["statistics.interval.ms"] == 0


HEAVY = ("scipy", "numpy", "pydantic", "pyarrow", "kopf", "kubernetes", "aiohttp", "kafka", "yaml")
REPORT = "import sys, evenkeel.router; print(sorted({m.split('.')[0] for m in sys.modules}))"
CLOCK = """
import time
start = time.process_time()
import evenkeel.router
print(time.process_time() - start)
"""


def run_python(code: str) -> str:
    environment = {"PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
    ).stdout


def test_the_router_imports_nothing_heavy() -> None:
    found = run_python(REPORT)
    assert [name for name in HEAVY if f"'{name}'" in found] == []


def test_the_router_is_imported_in_a_moment() -> None:
    assert min(float(run_python(CLOCK)) for _ in range(5)) < 0.3
