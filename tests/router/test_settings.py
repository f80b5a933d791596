from __future__ import annotations

import subprocess
import sys

import pytest

from evenkeel.errors import InputError
from evenkeel.router.settings import (
    batch_bytes,
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


def test_phase_is_random_by_default() -> None:
    assert split_config({})[0].phase != split_config({})[0].phase


@pytest.mark.parametrize(
    ("key", "value"),
    [("phase", 2), ("phase", "x"), ("heartbeat.ms", -1), ("message.bytes", None), ("colour", "red")],
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


def test_the_router_imports_nothing_heavy() -> None:
    code = "import sys, evenkeel.router; print(sorted({m.split('.')[0] for m in sys.modules}))"
    path = ":".join(sys.path)
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, check=True
    )
    for heavy in ("scipy", "numpy", "pydantic", "pyarrow", "kopf", "kubernetes"):
        assert f"'{heavy}'" not in found.stdout.decode()
