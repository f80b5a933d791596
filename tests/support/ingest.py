"""An ingest in memory: a journal, a data topic and workers that can be interleaved, cut off and lied to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evenkeel.domain.job import DatasetRef, Order, ProducerSettings, SourceFormat
from evenkeel.domain.journal import JournalState, parse
from evenkeel.errors import RetryableError
from evenkeel.ingest.headers import MessageIdentity
from evenkeel.ingest.journal import Journal
from evenkeel.ingest.outbox import Acknowledged
from evenkeel.ingest.packing import BadRecord
from evenkeel.ingest.worker import Ports, Worker
from evenkeel.kafka.clients.append import UnknownOutcomeError
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.reasons import Reason

PARTITIONS = 3
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00"
DATASET = DatasetRef(
    uid="6e1f",
    namespace="team",
    name="digits",
    data_topic="data",
    journal_topic="journal",
    manifest_topic="manifest",
    rejected_topic="rejected",
)


def build_settings(root: Path, **changes: object) -> ProducerSettings:
    """Messages of at most three records, slices of about five messages."""
    base = ProducerSettings(
        source_path=str(root),
        format=SourceFormat.IMAGE_FOLDER,
        order=Order.SHUFFLED,
        seed=7,
        message_records=3,
        slice_bytes=1500,
        workers=2,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def write_images(root: Path, classes: int, per_class: int) -> None:
    """Tiny files with a PNG's header, each with content of its own, in a folder per class."""
    for label in range(classes):
        folder = root / f"class-{label:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            content = PNG + f"{label}/{number}".encode() * (1 + number % 3)
            (folder / f"{number:03d}.png").write_bytes(content)


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class JournalTopic:
    """The one partition of a journal."""

    values: list[bytes] = field(default_factory=list)

    def fold(self) -> JournalState:
        state = JournalState()
        for offset, value in enumerate(self.values):
            state.apply(offset, parse(value))
        return state


class MemoryLog:
    """A worker's view of a journal.

    `fault` makes the next append fail before or after it wrote; `before` runs just before the next one:
    what others do between a worker's look at the journal and its write.
    """

    def __init__(self, topic: JournalTopic) -> None:
        self._topic = topic
        self._next = 0
        self.fault = ""
        self.before: Callable[[], None] | None = None

    def append(self, values: Sequence[bytes]) -> list[int]:
        before, self.before = self.before, None
        if before is not None:
            before()
        fault, self.fault = self.fault, ""
        if fault == "refused":
            raise RetryableError("not written", reason=Reason.BROKERS_UNREACHABLE)
        if fault == "lost":
            raise UnknownOutcomeError("not written", reason=Reason.BROKERS_UNREACHABLE)
        first = len(self._topic.values)
        self._topic.values.extend(values if fault != "half" else values[: len(values) // 2])
        if fault in ("written", "half"):
            raise UnknownOutcomeError("written", reason=Reason.BROKERS_UNREACHABLE)
        return list(range(first, first + len(values)))

    def poll(self, timeout: float) -> list[tuple[int, bytes]]:
        del timeout
        found = list(enumerate(self._topic.values))[self._next :]
        self._next = len(self._topic.values)
        return found

    def end(self) -> int:
        return len(self._topic.values)

    def close(self) -> None:
        pass


@dataclass
class DataTopic:
    """Partitions of records; `late` holds what a dead client sent and no broker has taken yet."""

    partitions: list[list[LogRecord]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    late: list[tuple[MessageIdentity, bytes]] = field(default_factory=list)
    destroyed: set[tuple[int, int]] = field(default_factory=set)

    def write(self, identity: MessageIdentity, value: bytes) -> tuple[int, int]:
        partition = sum(map(len, self.partitions)) % PARTITIONS
        records = self.partitions[partition]
        records.append(LogRecord(len(records), None, value, dict(identity.encode()), 0))
        return partition, len(records) - 1

    def scan(self, starts: Mapping[int, int]) -> Iterator[tuple[int, LogRecord]]:
        for partition in range(PARTITIONS):
            end = len(self.partitions[partition])
            for record in self.read(partition, starts.get(partition, 0), end):
                yield partition, record

    def read(self, partition: int, first: int, end: int) -> Iterator[LogRecord]:
        for record in self.partitions[partition][first:end]:
            if (partition, record.offset) not in self.destroyed:
                yield record


class MemoryOutbox:
    """The last two messages stay in flight until `flush`; `fault` decides what becomes of the next report."""

    def __init__(self, topic: DataTopic) -> None:
        self._topic = topic
        self.waiting: list[tuple[MessageIdentity, int, bytes]] = []
        self.fault = ""
        self.routes = True
        self._in_flight = 2

    def wait_for_routes(self, plan_offset: int) -> bool:
        del plan_offset
        return self.routes

    def send(self, identity: MessageIdentity, span: int, value: bytes) -> None:
        self._in_flight = 2
        self.waiting.append((identity, span, value))

    def take(self) -> list[Acknowledged]:
        taken = []
        while len(self.waiting) > self._in_flight:
            identity, span, value = self.waiting.pop(0)
            fault, self.fault = self.fault, ""
            if fault == "late":
                self._topic.late.append((identity, value))
            if fault == "written":
                self._topic.write(identity, value)
            if fault:
                raise UnknownOutcomeError(f"message {fault}", reason=Reason.BROKERS_UNREACHABLE)
            partition, offset = self._topic.write(identity, value)
            taken.append(Acknowledged(identity, span, partition, offset, len(value)))
        return taken

    def flush(self) -> None:
        self._in_flight = 0

    def drop(self) -> None:
        self._topic.late.extend((identity, value) for identity, _, value in self.waiting)
        self.waiting = []


@dataclass
class MemoryRejects:
    """What was told of."""

    records: list[BadRecord] = field(default_factory=list)

    def write(self, records: Sequence[BadRecord]) -> None:
        self.records.extend(records)


class World:
    """The topics of one dataset and a clock; makes workers that share them."""

    def __init__(self, settings: ProducerSettings) -> None:
        self.settings = settings
        self.journal = JournalTopic()
        self.data = DataTopic()
        self.rejects = MemoryRejects()
        self.clock = Clock()
        self._instances = 0

    def start(self, index: int, settings: ProducerSettings | None = None) -> Running:
        self._instances += 1
        log, outbox = MemoryLog(self.journal), MemoryOutbox(self.data)
        ports = Ports(Journal(log, self.clock), outbox, self.data, self.rejects)
        name = f"instance-{self._instances}"
        worker = Worker(index, name, DATASET, settings or self.settings, ports, journal_every=2)
        return Running(index, worker, log, outbox)


@dataclass
class Running:
    """A worker and the ends of its wires."""

    index: int
    worker: Worker
    log: MemoryLog
    outbox: MemoryOutbox
