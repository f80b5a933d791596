"""From a Connection to the configuration of a librdkafka client. Secrets are read here and go nowhere else."""

from __future__ import annotations

from pathlib import Path

from evenkeel.domain.connection import Connection, Protocol, SaslMechanism
from evenkeel.errors import ConfigurationError
from evenkeel.reasons import Reason

ClientConfig = dict[str, str | int | float | bool]

_PROTOCOLS = {
    Protocol.PLAINTEXT: "PLAINTEXT",
    Protocol.TLS: "SSL",
    Protocol.SASL_PLAINTEXT: "SASL_PLAINTEXT",
    Protocol.SASL_TLS: "SASL_SSL",
}
_MECHANISMS = {
    SaslMechanism.PLAIN: "PLAIN",
    SaslMechanism.SCRAM_SHA_256: "SCRAM-SHA-256",
    SaslMechanism.SCRAM_SHA_512: "SCRAM-SHA-512",
}
_WITH_TLS = (Protocol.TLS, Protocol.SASL_TLS)
_WITH_SASL = (Protocol.SASL_PLAINTEXT, Protocol.SASL_TLS)


def client_config(connection: Connection, *, move: bool = False) -> ClientConfig:
    """Addresses and security of a client; the credentials files are read anew by each call.

    Args:
        connection: how to reach the cluster.
        move: with the credentials for moves and topic changes, where there are any.

    Raises:
        ConfigurationError: SECRET_MISSING: a credentials file is absent or empty; names the file, never
            what is in it. INVALID_SPEC: no address.
    """
    if not connection.bootstrap_servers:
        raise ConfigurationError("bootstrapServers: at least one host:port", reason=Reason.INVALID_SPEC)
    config: ClientConfig = {
        "bootstrap.servers": ",".join(connection.bootstrap_servers),
        "security.protocol": _PROTOCOLS[connection.protocol],
        # A dead broker is tried again within a second, not within ten.
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 1000,
        "socket.connection.setup.timeout.ms": 5000,
        "allow.auto.create.topics": False,
    }
    if connection.protocol in _WITH_TLS and connection.ca_certificates:
        config["ssl.ca.pem"] = connection.ca_certificates
    folder = _credentials_folder(connection, move=move)
    if connection.protocol in _WITH_SASL:
        config |= _sasl(connection, folder)
    elif connection.protocol is Protocol.TLS and folder is not None:
        config |= _client_certificate(folder)
    return config


def _credentials_folder(connection: Connection, *, move: bool) -> Path | None:
    path = (connection.move_credentials_path if move else None) or connection.credentials_path
    return None if path is None else Path(path)


def _sasl(connection: Connection, folder: Path | None) -> ClientConfig:
    if folder is None:
        message = f"{connection.protocol.value} needs credentials, and no Secret is named"
        raise ConfigurationError(message, reason=Reason.SECRET_MISSING)
    mechanism = connection.sasl_mechanism or SaslMechanism.SCRAM_SHA_512
    return {
        "sasl.mechanism": _MECHANISMS[mechanism],
        "sasl.username": _read_secret(folder / "username"),
        "sasl.password": _read_secret(folder / "password"),
    }


def _client_certificate(folder: Path) -> ClientConfig:
    return {
        "ssl.certificate.pem": _read_secret(folder / "tls.crt"),
        "ssl.key.pem": _read_secret(folder / "tls.key"),
    }


def _read_secret(path: Path) -> str:
    try:
        # Editors and `kubectl create secret --from-file` leave a final line feed that is not part of it.
        content = path.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        content = ""
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read: {type(error).__name__}"
        raise ConfigurationError(message, reason=Reason.SECRET_MISSING) from None
    if not content:
        message = f"{path}: missing or empty; the Secret must hold the key {path.name}"
        raise ConfigurationError(message, reason=Reason.SECRET_MISSING)
    return content
