"""How full the brokers' disks are, asked of the brokers, and waiting until they say what is expected."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from evenkeel.domain.connection import Connection
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kafka.admin import Admin
from evenkeel.keeper import assembly, collector
from evenkeel.keeper.growth import Growth
from scripts.provision import steps
from scripts.provision.steps import StepFailed

T = TypeVar("T")
POLL_SECONDS = 0.5
STILL_SECONDS = 2.0
REST_SECONDS = 180.0
"""Brokers without processor time write, and delete, late."""
STILL_BYTES = 64 * 1024
"""Brokers write checkpoints and metadata all the time; less than this is standing still."""
ANSWER_SECONDS = 30.0
"""A broker is listed a moment before it takes connections; the client asks it again after a second only."""
BACK_BYTES = 2 * 2**20
"""A file system keeps a few blocks for folders that were."""


@dataclass(frozen=True)
class Disk:
    """One broker's disk."""

    total_bytes: int
    used_bytes: int
    """total - usable: deleted files that still lie there are counted."""

    @property
    def fill(self) -> float:
        """Used share."""
        return self.used_bytes / self.total_bytes


Disks = Mapping[int, Disk]


class Gauge:
    """Asks the brokers of a cluster for their disks; use as a context manager.

    Args:
        bootstrap: `host:port` of some brokers, with commas.
        monotonic: clock in seconds.
        pause: waits between two questions.
    """

    def __init__(
        self,
        bootstrap: str,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = Connection(tuple(bootstrap.split(",")))
        self._monotonic, self._pause = monotonic, pause
        self._admin = self.patiently(lambda: Admin(self._connection))
        self._brokers = [broker.id for broker in self.patiently(self._admin.describe_cluster).brokers]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def read(self) -> dict[int, Disk]:
        """The disks now; a broker that cannot be reached is asked again for `ANSWER_SECONDS`.

        Raises:
            RetryableError: a broker does not answer.
            EvenkeelError: a broker refuses to answer.
            StepFailed: a broker does not know the size of its disk.
        """
        return self.patiently(self._ask)

    def patiently(self, call: Callable[[], T]) -> T:
        """`call()`, which is safe to repeat, again for `ANSWER_SECONDS` while brokers cannot be reached.

        Raises:
            RetryableError: they still cannot.
        """
        deadline = self._monotonic() + ANSWER_SECONDS
        while True:
            try:
                return call()
            except RetryableError:
                if self._monotonic() > deadline:
                    raise
            self._pause(POLL_SECONDS)

    def _ask(self) -> dict[int, Disk]:
        found = {}
        for broker, dirs in self._admin.ask_log_dirs(self._brokers, replicas=False).answers().items():
            if isinstance(dirs, EvenkeelError):
                raise dirs
            (disk,) = dirs
            if disk.total_bytes is None or disk.usable_bytes is None:
                raise StepFailed(f"broker {broker} does not know the size of its disk {disk.path}")
            found[broker] = Disk(disk.total_bytes, disk.total_bytes - disk.usable_bytes)
        return found

    def read_still(self, seconds: float = REST_SECONDS) -> dict[int, Disk]:
        """The disks once none of them has changed for `STILL_SECONDS`.

        Raises:
            StepFailed: they have not come to rest within `seconds`.
        """
        deadline = self._monotonic() + seconds
        before, since = self.read(), self._monotonic()
        while self._monotonic() < deadline:
            self._pause(POLL_SECONDS)
            now = self.read()
            if _differ(before, now):
                before, since = now, self._monotonic()
            elif self._monotonic() - since >= STILL_SECONDS:
                return now
        raise StepFailed(f"the disks of brokers {sorted(before)} do not come to rest within {seconds:.0f} s")

    def wait_back(self, wanted: Disks, seconds: float = REST_SECONDS) -> None:
        """Wait until no disk holds more than in `wanted`, but for `BACK_BYTES`.

        Raises:
            StepFailed: some still do after `seconds`; names them.
        """
        deadline = self._monotonic() + seconds
        while True:
            over = {
                broker: disk.used_bytes - wanted[broker].used_bytes for broker, disk in self.read().items()
            }
            left = {broker: size for broker, size in over.items() if size > BACK_BYTES}
            if not left:
                return
            if self._monotonic() > deadline:
                raise StepFailed(f"deleted bytes are still on the disks after {seconds:.0f} s: {left}")
            self._pause(POLL_SECONDS)

    def snapshot(self) -> ClusterSnapshot:
        """A measurement, as the keeper makes it; one with gaps is made again for `ANSWER_SECONDS`, then taken.

        Raises:
            EvenkeelError: not even brokers and topics could be learned.
        """
        deadline = self._monotonic() + ANSWER_SECONDS
        while (found := self.patiently(self._measure)).unknown:
            if self._monotonic() > deadline:
                steps.say(f"the brokers leave open: {', '.join(found.unknown)}")
                break
            self._pause(POLL_SECONDS)
        return found

    def _measure(self) -> ClusterSnapshot:
        measurement = collector.gather(self._connection, now_ms=time.time_ns() // 1_000_000)
        return assembly.assemble(measurement, Growth())

    @property
    def admin(self) -> Admin:
        """For topics."""
        return self._admin


def fills(disks: Disks) -> dict[int, float]:
    """Broker -> used share of its disk."""
    return {broker: disk.fill for broker, disk in sorted(disks.items())}


def plan_ballast(disks: Disks, targets: Mapping[int, float]) -> dict[int, int]:
    """Bytes to write to each broker so that its disk is used to the share in `targets`.

    Raises:
        ValueError: a disk is fuller than wanted already.
    """
    missing = {
        broker: int(targets[broker] * disk.total_bytes) - disk.used_bytes for broker, disk in disks.items()
    }
    for broker, size in missing.items():
        if size < 0:
            raise ValueError(f"broker {broker}: {disks[broker].fill:.1%} used, {targets[broker]:.1%} wanted")
    return missing


def _differ(one: Disks, other: Disks) -> bool:
    return any(abs(other[broker].used_bytes - disk.used_bytes) > STILL_BYTES for broker, disk in one.items())
