"""How to reach a Kafka cluster, without secrets: those are files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Protocol(StrEnum):
    """Kafka's security protocols by their Kubernetes spelling."""

    PLAINTEXT = "Plaintext"
    TLS = "Tls"
    SASL_PLAINTEXT = "SaslPlaintext"
    SASL_TLS = "SaslTls"


class SaslMechanism(StrEnum):
    """Password mechanisms that both clients speak."""

    PLAIN = "Plain"
    SCRAM_SHA_256 = "ScramSha256"
    SCRAM_SHA_512 = "ScramSha512"


@dataclass(frozen=True, slots=True)
class Connection:
    """Addresses and protocol of a Kafka cluster."""

    bootstrap_servers: tuple[str, ...]
    """`host:port` each."""
    protocol: Protocol = Protocol.PLAINTEXT
    sasl_mechanism: SaslMechanism | None = None
    ca_certificates: str | None = None
    """PEM, public; None: the system's."""
    credentials_path: str | None = None
    """Folder with `username` and `password`, or `tls.crt` and `tls.key`; None where none are needed."""
    move_credentials_path: str | None = None
    """The same for moves and topic changes; None: `credentials_path` serves."""
