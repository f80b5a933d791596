from __future__ import annotations

import logging
from pathlib import Path

import pytest

from evenkeel.domain.connection import Connection, Protocol, SaslMechanism
from evenkeel.errors import ConfigurationError
from evenkeel.kafka import admin as module
from evenkeel.kafka.answers import DirAnswer, PartitionAnswer
from evenkeel.reasons import Reason


def test_settings_of_a_plain_cluster() -> None:
    assert module.admin_settings(Connection(("a:1", "b:2"))) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "PLAINTEXT",
    }


def test_settings_of_a_cluster_with_passwords(tmp_path: Path) -> None:
    for use in ("observe", "move"):
        (tmp_path / use).mkdir()
        (tmp_path / use / "username").write_text(use)
        (tmp_path / use / "password").write_text(f"{use}-secret")
    connection = Connection(
        ("a:1",),
        Protocol.SASL_PLAINTEXT,
        SaslMechanism.SCRAM_SHA_256,
        credentials_path=str(tmp_path / "observe"),
        move_credentials_path=str(tmp_path / "move"),
    )
    settings = module.admin_settings(connection, move=True)
    assert settings["sasl_mechanism"] == "SCRAM-SHA-256"
    assert settings["sasl_plain_username"] == "move"
    assert module.admin_settings(connection)["sasl_plain_password"] == "observe-secret"


def test_a_broken_certificate_is_named_by_its_file(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"tls\.crt") as refused:
        module.admin_settings(Connection(("a:1",), Protocol.TLS, credentials_path=str(tmp_path)))
    assert refused.value.reason is Reason.SECRET_MISSING


def test_the_library_that_logs_passwords_is_silent() -> None:
    assert not logging.getLogger("kafka").isEnabledFor(logging.DEBUG)


def test_a_failed_directory_is_unknown_not_empty() -> None:
    raw = {"error_code": 56, "log_dir": "/d", "total_bytes": -1, "usable_bytes": -1, "topics": []}
    assert module._dir(raw) == DirAnswer("/d", online=False, total_bytes=None, usable_bytes=None)


def test_copies_between_directories_are_kept_apart() -> None:
    partitions = [
        {"partition_index": 0, "partition_size": 5, "is_future_key": False},
        {"partition_index": 0, "partition_size": 3, "is_future_key": True},
    ]
    raw = {
        "error_code": 0, "log_dir": "/d", "total_bytes": 9, "usable_bytes": 4,
        "topics": [{"name": "t", "partitions": partitions}],
    }  # fmt: skip
    found = module._dir(raw)
    assert (found.replica_bytes, found.future_bytes) == ({("t", 0): 5}, {("t", 0): 3})


def test_a_partition_without_a_leader_has_none() -> None:
    raw = {"partition_index": 2, "leader_id": -1, "replica_nodes": [1, 2], "isr_nodes": []}
    assert module._partition(raw) == PartitionAnswer(2, None, (1, 2), ())
