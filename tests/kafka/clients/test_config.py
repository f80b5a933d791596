from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.domain.connection import Connection, Protocol, SaslMechanism
from evenkeel.errors import ConfigurationError
from evenkeel.kafka.clients.config import client_config
from evenkeel.reasons import Reason

PLAIN = Connection(("a:1", "b:2"))


def sasl(folder: Path | None, move: Path | None = None) -> Connection:
    return Connection(
        ("a:1",),
        Protocol.SASL_TLS,
        SaslMechanism.SCRAM_SHA_256,
        ca_certificates="PEM",
        credentials_path=None if folder is None else str(folder),
        move_credentials_path=None if move is None else str(move),
    )


def store(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


def test_plaintext_needs_nothing_but_addresses() -> None:
    config = client_config(PLAIN)
    assert (config["bootstrap.servers"], config["security.protocol"]) == ("a:1,b:2", "PLAINTEXT")
    assert not any(key.startswith(("sasl", "ssl")) for key in config)


def test_sasl_reads_the_mounted_secret(tmp_path: Path) -> None:
    config = client_config(sasl(store(tmp_path / "s", username="user\n", password="p w\n")))
    assert config["sasl.mechanism"] == "SCRAM-SHA-256"
    assert (config["sasl.username"], config["sasl.password"]) == ("user", "p w")
    assert (config["security.protocol"], config["ssl.ca.pem"]) == ("SASL_SSL", "PEM")


def test_moves_use_their_own_secret_where_there_is_one(tmp_path: Path) -> None:
    observe = store(tmp_path / "observe", username="observe", password="1")
    move = store(tmp_path / "move", username="move", password="2")
    both = sasl(observe, move)
    assert client_config(both)["sasl.username"] == "observe"
    assert client_config(both, move=True)["sasl.username"] == "move"
    assert client_config(sasl(observe), move=True)["sasl.username"] == "observe"


def test_a_client_certificate_is_read_for_tls(tmp_path: Path) -> None:
    folder = store(tmp_path / "s", tls_crt="CERT", tls_key="KEY")
    config = client_config(Connection(("a:1",), Protocol.TLS, credentials_path=str(folder)))
    assert (config["ssl.certificate.pem"], config["ssl.key.pem"]) == ("CERT", "KEY")


def test_a_missing_file_is_named_and_heals(tmp_path: Path) -> None:
    connection = sasl(tmp_path / "s")
    for present in ({}, {"username": "u"}, {"password": ""}):
        store(tmp_path / "s", **present)
        with pytest.raises(ConfigurationError, match=r"s/(username|password): missing") as caught:
            client_config(connection)
        assert caught.value.reason is Reason.SECRET_MISSING
        assert caught.value.retry
    store(tmp_path / "s", password="geheim")
    assert client_config(connection)["sasl.password"] == "geheim"


def test_sasl_without_a_secret_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no Secret is named"):
        client_config(sasl(None))


def test_an_address_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="bootstrapServers"):
        client_config(Connection(()))
