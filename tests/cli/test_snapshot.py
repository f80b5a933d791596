from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.cli.snapshot import build_connection, read_properties
from evenkeel.domain.connection import Protocol, SaslMechanism
from evenkeel.errors import InputError


def write(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    return str(path)


def test_security_settings_become_a_connection(tmp_path: Path) -> None:
    text = "# mine\nsecurity.protocol=SASL_SSL\nsasl.mechanism = SCRAM-SHA-512\nsasl.username=me\nsasl.password=a=b\n"
    folder = tmp_path / "secrets"
    folder.mkdir()
    connection = build_connection("a:1, b:2", read_properties(write(tmp_path, text)), folder)
    assert connection.bootstrap_servers == ("a:1", "b:2")
    assert connection.protocol is Protocol.SASL_TLS
    assert connection.sasl_mechanism is SaslMechanism.SCRAM_SHA_512
    assert (folder / "password").read_text() == "a=b"
    assert "a=b" not in repr(connection)


def test_without_settings_it_is_plain(tmp_path: Path) -> None:
    connection = build_connection("a:1", {}, tmp_path)
    assert connection.protocol is Protocol.PLAINTEXT
    assert connection.credentials_path is None


@pytest.mark.parametrize(
    ("text", "told"),
    [("sasl.pasword=x", "line 1"), ("just words", "line 1"), ("\nfoo=bar", "line 2")],
)
def test_a_key_that_is_not_understood_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_properties(write(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.properties"):
        read_properties(str(tmp_path / "nowhere.properties"))


@pytest.mark.parametrize(
    "properties", [{"security.protocol": "SASL"}, {"sasl.mechanism": "GSSAPI"}], ids=["protocol", "mechanism"]
)
def test_a_value_that_is_not_supported_is_refused(tmp_path: Path, properties: dict[str, str]) -> None:
    with pytest.raises(InputError, match="must be one of"):
        build_connection("a:1", properties, tmp_path)
