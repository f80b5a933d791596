"""`evenkeel snapshot`: measure any Kafka cluster and print the snapshot as JSON; changes nothing there."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection, Protocol, SaslMechanism
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.kafka.clients.probe import probe
from evenkeel.keeper.assembly import assemble
from evenkeel.keeper.collector import gather
from evenkeel.keeper.growth import SHORTEST_SECONDS, Growth
from evenkeel.keeper.inflow import Inflow
from evenkeel.reasons import Reason

T = TypeVar("T")
_PROTOCOLS = {
    "PLAINTEXT": Protocol.PLAINTEXT,
    "SSL": Protocol.TLS,
    "SASL_PLAINTEXT": Protocol.SASL_PLAINTEXT,
    "SASL_SSL": Protocol.SASL_TLS,
}
_MECHANISMS = {
    "PLAIN": SaslMechanism.PLAIN,
    "SCRAM-SHA-256": SaslMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": SaslMechanism.SCRAM_SHA_512,
}
_SECRETS = {"sasl.username": "username", "sasl.password": "password"}
_FILES = {"ssl.certificate.location": "tls.crt", "ssl.key.location": "tls.key"}
_KEYS = ("security.protocol", "sasl.mechanism", "ssl.ca.location", *_SECRETS, *_FILES)


def main(arguments: list[str]) -> int:
    """Measure and print; returns the exit code.

    Raises:
        InputError: the file of settings is wrong; names the key.
        EvenkeelError: the cluster cannot be measured.
    """
    options = _parse(arguments)
    properties = read_properties(options.config) if options.config else {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-") as folder:  # 0700, gone afterwards
        connection = build_connection(options.bootstrap, properties, Path(folder))
        snapshot = measure(connection, options.seconds)
    sys.stdout.write(json.dumps(codec.to_json(snapshot), indent=None if options.compact else 2) + "\n")
    return 0


def measure(connection: Connection, seconds: float) -> ClusterSnapshot:
    """A snapshot; with `seconds` of observation also with rates.

    Raises:
        EvenkeelError: not even brokers and topics could be learned.
    """
    probe(connection)
    growth = Growth()
    measurement = gather(connection, now_ms=time.time_ns() // 1_000_000)
    growth.observe(measurement)
    if seconds > 0:
        time.sleep(max(seconds, SHORTEST_SECONDS))
        measurement = gather(connection, now_ms=time.time_ns() // 1_000_000)
        growth.observe(measurement)
    return assemble(measurement, growth, inflow=Inflow(routed=frozenset(measurement.topics)))


def read_properties(path: str) -> dict[str, str]:
    """`key=value` lines as Kafka's own tools take them; comments begin with #.

    Raises:
        InputError: the file cannot be read, or a line or key is not understood.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"--config {path}: {error.strerror}", reason=Reason.INVALID_SPEC) from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, separator, value = text.partition("=")
        if not separator or key.strip() not in _KEYS:
            allowed = ", ".join(_KEYS)
            message = f"--config {path}, line {number}: a key must be one of {allowed}"
            raise InputError(message, reason=Reason.INVALID_SPEC)
        found[key.strip()] = value.strip()
    return found


def build_connection(bootstrap: str, properties: Mapping[str, str], folder: Path) -> Connection:
    """A connection whose credentials lie as files in `folder`.

    Raises:
        InputError: a value is not one that Kafka knows.
    """
    for key, name in _SECRETS.items():
        if key in properties:
            (folder / name).write_text(properties[key], encoding="utf-8")
    for key, name in _FILES.items():
        if key in properties:
            (folder / name).symlink_to(Path(properties[key]).absolute())
    authority = properties.get("ssl.ca.location")
    return Connection(
        bootstrap_servers=tuple(part.strip() for part in bootstrap.split(",") if part.strip()),
        protocol=_choose("security.protocol", properties.get("security.protocol", "PLAINTEXT"), _PROTOCOLS),
        sasl_mechanism=_choose("sasl.mechanism", properties["sasl.mechanism"], _MECHANISMS)
        if "sasl.mechanism" in properties
        else None,
        ca_certificates=Path(authority).read_text(encoding="utf-8") if authority else None,
        credentials_path=str(folder) if any(folder.iterdir()) else None,
    )


def _choose(key: str, value: str, known: Mapping[str, T]) -> T:
    if value.upper() not in known:
        allowed = ", ".join(known)
        raise InputError(f"{key}: must be one of {allowed}, not {value!r}", reason=Reason.INVALID_SPEC)
    return known[value.upper()]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evenkeel snapshot", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="with commas for several")
    parser.add_argument("--config", metavar="FILE", help="security settings, key=value per line")
    parser.add_argument(
        "--seconds", type=float, default=0, metavar="N", help="observe growth for so long (default: not)"
    )
    parser.add_argument("--compact", action="store_true", help="one line")
    return parser.parse_args(arguments)
