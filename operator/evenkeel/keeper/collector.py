"""Asks a Kafka cluster for everything that a snapshot needs, all brokers at once, each with a deadline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from evenkeel.domain.connection import Connection
from evenkeel.errors import EvenkeelError
from evenkeel.kafka import wire
from evenkeel.kafka.admin import Admin
from evenkeel.kafka.answers import OffsetSpan, TopicAnswer, TopicPartition
from evenkeel.keeper.measurement import CONFIG_KEYS, Measurement
from evenkeel.planning.retention import DELETE_DELAY_MS, Horizons, Retention, expiry_cutoff_ms

T = TypeVar("T")
UNLIMITED = -1
DEADLINE_SECONDS = 5.0
"""A broker that has not answered by then is unknown in this measurement. Healthy ones take milliseconds."""
Offsets = Mapping[TopicPartition, int]


def gather(
    connection: Connection,
    *,
    now_ms: int,
    config_keys: Iterable[str] = (),
    horizons: Horizons | None = None,
    deadline: float = DEADLINE_SECONDS,
) -> Measurement:
    """Measure once, with a fresh client.

    Args:
        connection: where and how.
        now_ms: wall clock, milliseconds since the epoch.
        config_keys: topic settings wanted beyond CONFIG_KEYS.
        horizons: how far ahead expiring bytes are looked for, by topic.
        deadline: seconds for one broker's answer. There are three rounds of questions, and a broker that missed
            the second is left out of the third: a measurement lasts two deadlines at most, after connecting.

    Raises:
        EvenkeelError: not even brokers and topics could be learned; anything less is in the answer.
    """
    with Admin(connection, timeout=deadline) as admin, ThreadPoolExecutor(2, "gather") as beside:
        asked = beside.submit(admin.describe_topics)
        cluster = admin.describe_cluster()
        topics = asked.result()
        online = [broker.id for broker in cluster.brokers if not broker.fenced]
        keys = sorted({*CONFIG_KEYS, *config_keys})
        configs = beside.submit(_known, lambda: admin.describe_topic_configs(sorted(topics), keys))
        reassignments = beside.submit(_known, admin.list_reassignments)
        led = _by_leader(topics, online)
        dirs, rates = admin.ask_log_dirs(online), admin.ask_rates(online)
        ends = admin.ask_offsets({leader: dict.fromkeys(keys, wire.LATEST) for leader, keys in led.items()})
        starts = admin.ask_offsets(
            {leader: dict.fromkeys(keys, wire.EARLIEST) for leader, keys in led.items()}
        )
        offsets = _join_offsets(starts.answers(), ends.answers())
        found = configs.result()
        settings = dict.fromkeys(topics) if isinstance(found, EvenkeelError) else found
        times = _expiry_times(settings, offsets, now_ms, horizons or Horizons())
        kept = admin.ask_offsets(times).answers()
        return Measurement(
            taken_at_ms=now_ms,
            cluster=cluster,
            topics=topics,
            dirs=dirs.answers(),
            offsets=offsets,
            configs=settings,
            configs_error=found if isinstance(found, EvenkeelError) else None,
            reassignments=reassignments.result(),
            kept_from=_kept_from(kept.values()),
            throttles=rates.answers(),
        )


def _known(call: Callable[[], T]) -> T | EvenkeelError:
    try:
        return call()
    except EvenkeelError as error:
        return error


def _by_leader(topics: Mapping[str, TopicAnswer], online: Iterable[int]) -> dict[int, list[TopicPartition]]:
    alive = set(online)
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for name, topic in topics.items():
        for entry in topic.partitions:
            if entry.leader in alive:
                found[entry.leader].append((name, entry.partition))
    return found


def _join_offsets(
    starts: Mapping[int, Offsets | EvenkeelError], ends: Mapping[int, Offsets | EvenkeelError]
) -> dict[int, Mapping[TopicPartition, OffsetSpan] | EvenkeelError]:
    found: dict[int, Mapping[TopicPartition, OffsetSpan] | EvenkeelError] = {}
    for leader, end in ends.items():
        start = starts[leader]
        if isinstance(end, EvenkeelError) or isinstance(start, EvenkeelError):
            found[leader] = end if isinstance(end, EvenkeelError) else start  # type: ignore[assignment]
            continue
        found[leader] = {key: OffsetSpan(start[key], last) for key, last in end.items() if key in start}
    return found


def _expiry_times(
    configs: Mapping[str, Mapping[str, str] | None],
    offsets: Mapping[int, Mapping[TopicPartition, OffsetSpan] | EvenkeelError],
    now_ms: int,
    horizons: Horizons,
) -> dict[int, dict[TopicPartition, int]]:
    """By leader that answered: partitions whose records expire by time, and the oldest time kept at their horizon.

    Empty partitions have nothing that could expire and are not asked about.
    """
    cutoffs = {name: _cutoff_ms(name, config, now_ms, horizons) for name, config in configs.items()}
    times: dict[int, dict[TopicPartition, int]] = {}
    for leader, answer in offsets.items():
        if isinstance(answer, EvenkeelError):
            continue
        wanted = {}
        for key, span in answer.items():
            cutoff = cutoffs.get(key[0])
            if cutoff is not None and span.end > span.start:
                wanted[key] = cutoff
        if wanted:
            times[leader] = wanted
    return times


def _cutoff_ms(topic: str, config: Mapping[str, str] | None, now_ms: int, horizons: Horizons) -> int | None:
    """Records older than this will be gone at the topic's horizon; None: none goes by age, or not known."""
    age = retention_ms(config)
    if config is None or age is None or age < 0:
        return None
    delay = int(config.get("file.delete.delay.ms", DELETE_DELAY_MS))
    retention = Retention(age_ms=age, delete_delay_ms=delay)
    return expiry_cutoff_ms(now_ms, horizons.seconds(topic, retention), retention)


def _kept_from(answers: Iterable[Offsets | EvenkeelError]) -> dict[TopicPartition, int | None]:
    """First offset kept at the end of the horizon; None: all go."""
    found: dict[TopicPartition, int | None] = {}
    for answer in answers:
        if not isinstance(answer, EvenkeelError):
            found.update((key, offset if offset >= 0 else None) for key, offset in answer.items())
    return found


def retention_ms(config: Mapping[str, str] | None) -> int | None:
    """Age at which records expire, UNLIMITED where they do not; None: unknown."""
    if config is None:
        return None
    if "delete" not in config.get("cleanup.policy", "delete"):
        return UNLIMITED
    return int(config["retention.ms"]) if "retention.ms" in config else None
