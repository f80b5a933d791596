"""From the user's configuration to ours and to those of the router's own two clients."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.errors import InputError
from evenkeel.reasons import Reason
from evenkeel.router.statistics import INTERVAL_MS

PREFIX = "evenkeel."
STATISTICS_KEY = "statistics.interval.ms"
_SHARED = (
    "bootstrap.servers",
    "metadata.broker.list",
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl",
    "enable.sasl",
    "https.",
    "oauth_cb",
    "socket.",
    "broker.address",
    "reconnect.",
    "client.rack",
    "client.dns",
    "log_level",
)
"""What the router's own clients take over: addresses and security, nothing that concerns the user's records."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The keys `evenkeel.*`; librdkafka never sees them."""

    topics: tuple[str, ...] = ()
    """`evenkeel.topics`: list or comma-separated names of topics to route; empty: all that have a table."""
    phase: float = 0.0
    """`evenkeel.phase`: (i + 1/2)/n for the i-th of n producers that work together; else random."""
    message_bytes: int = 0
    """`evenkeel.message.bytes`: usual size of a message, where all are about equal."""
    heartbeat_ms: int = 5_000
    """`evenkeel.heartbeat.ms`: how often bytes are reported; 0: never."""


def split_config(config: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Our settings, and what remains for librdkafka.

    Raises:
        InputError: an unknown `evenkeel.` key, or a value out of bounds.
    """
    rest = {key: value for key, value in config.items() if not key.startswith(PREFIX)}
    ours = {key[len(PREFIX) :]: value for key, value in config.items() if key.startswith(PREFIX)}
    settings = Settings(
        topics=_topics(ours.pop("topics", ())),
        # Of the system: with a program's own seed all its processes would have one phase, and lose a draw.
        phase=_number(ours, "phase", random.SystemRandom().random(), 1.0),
        message_bytes=int(_number(ours, "message.bytes", 0, 1 << 30)),
        heartbeat_ms=int(_number(ours, "heartbeat.ms", 5_000, 3_600_000)),
    )
    if ours:
        known = "topics, phase, message.bytes, heartbeat.ms"
        raise InputError(f"{PREFIX}{min(ours)}: unknown; known are {known}", reason=Reason.INVALID_SPEC)
    return settings, rest


def _topics(value: str | Iterable[str]) -> tuple[str, ...]:
    try:
        names = value.split(",") if isinstance(value, str) else list(value)
        return tuple(name.strip() for name in names if name.strip())
    except (AttributeError, TypeError) as error:
        what = f"{PREFIX}topics: must be a list or comma-separated names, not {value!r:.80}"
        raise InputError(what, reason=Reason.INVALID_SPEC) from error


def _number(ours: dict[str, Any], key: str, default: float, highest: float) -> float:
    raw = ours.pop(key, default)
    try:
        value = float(raw)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value <= highest:
        what = f"{PREFIX}{key}: must be a number from 0 to {highest:g}, not {raw!r}"
        raise InputError(what, reason=Reason.INVALID_SPEC)
    return value


def reader_config(config: Mapping[str, Any], router: str) -> dict[str, Any]:
    """Of the consumer that reads tables by hand-assigned partition; the group is never joined."""
    return _shared(config) | {
        "client.id": f"{router}-routes",
        "group.id": router,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "latest",
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 500,
        "queued.max.messages.kbytes": 4096,
        "enable.metrics.push": False,
    }


def heartbeat_config(config: Mapping[str, Any], router: str) -> dict[str, Any]:
    """Of the small producer of heartbeats: one that may fail without anybody waiting."""
    return _shared(config) | {
        "client.id": f"{router}-heartbeats",
        "message.timeout.ms": 10_000,
        "queue.buffering.max.messages": 100,
        "allow.auto.create.topics": False,
        "acks": 1,
        "enable.metrics.push": False,
    }


def collect_statistics(config: dict[str, Any], offer: Callable[[str], None]) -> None:
    """Have the client's statistics offered to us too; the user's own callback gets them as before.

    Where the user asked for none, they come every 10 s and to us alone; 0 keeps them off. They are served
    by the user's calls of poll and flush.
    """
    theirs = config.get("stats_cb")
    if theirs is not None and not callable(theirs):
        return  # the client refuses it
    asked = STATISTICS_KEY in config
    config.setdefault(STATISTICS_KEY, INTERVAL_MS)
    config["stats_cb"] = functools.partial(_serve, offer, theirs) if asked and theirs else offer


def _serve(offer: Callable[[str], None], theirs: Callable[[str], object], text: str) -> None:
    offer(text)
    theirs(text)


def _shared(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key.startswith(_SHARED)}


def linger_seconds(config: Mapping[str, Any]) -> float:
    """Batching delay as configured; librdkafka's default is 5 ms."""
    value = config.get("linger.ms", config.get("queue.buffering.max.ms", 5))
    try:
        return float(value) / 1000
    except (TypeError, ValueError):
        return 0.005


def batch_bytes(config: Mapping[str, Any]) -> int:
    """Largest batch as configured."""
    try:
        return int(config.get("batch.size", 1_000_000))
    except (TypeError, ValueError):
        return 1_000_000
