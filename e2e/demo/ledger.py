"""What the training ranks wrote down of the records that they read, held against the manifest. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RankLog:
    """The log of one rank."""

    rank: int
    epochs: dict[int, tuple[str, ...]]
    """Epoch -> ids of the records in the order in which they were read."""
    digest: str
    """Of the revision that it read."""
    accuracy: float
    """On the held-out records."""
    held_out: int
    consistent: bool
    """Whether count and digest of its last line are those of its ledger lines."""

    @property
    def records(self) -> int:
        """Records read, over all epochs."""
        return sum(len(ids) for ids in self.epochs.values())


@dataclass(frozen=True)
class Coverage:
    """All ranks together against the manifest, summed over the epochs."""

    epochs: int
    missing: int
    """Records that no rank saw in an epoch."""
    repeated: int
    """Times that a record was seen more than once in an epoch."""
    foreign: int
    """Ids that the manifest does not hold."""
    examples: tuple[str, ...] = field(default=())
    """A few of the ids in question."""

    @property
    def exact(self) -> bool:
        """Every record once per epoch, and nothing else."""
        return self.epochs > 0 and not (self.missing or self.repeated or self.foreign)


def parse_log(text: str) -> RankLog:
    """The log of one rank -> what it says; lines that are not JSON objects are passed over.

    Raises:
        ValueError: the last line, with the rank's result, is missing, or an epoch appears twice.
    """
    epochs: dict[int, tuple[str, ...]] = {}
    result: dict[str, Any] | None = None
    for line in text.splitlines():
        entry = _parse_line(line)
        if "ledger" in entry:
            epoch = int(entry["ledger"]["epoch"])
            if epoch in epochs:
                raise ValueError(f"epoch {epoch} of rank {entry['ledger']['rank']} is in the ledger twice")
            epochs[epoch] = tuple(entry["ledger"]["ids"])
        elif "ledgerDigest" in entry:
            result = entry
    if result is None:
        raise ValueError("the log of a rank ends without its result")
    total = hashlib.sha256()
    for ids in epochs.values():
        total.update("\n".join(ids).encode())
    count = sum(len(ids) for ids in epochs.values())
    return RankLog(
        rank=int(result["rank"]),
        epochs=epochs,
        digest=str(result["digest"]),
        accuracy=float(result["accuracy"]),
        held_out=int(result["heldOut"]),
        consistent=result["ledgerDigest"] == total.hexdigest() and result["records"] == count,
    )


def check_coverage(logs: Sequence[RankLog], expected: Iterable[str]) -> Coverage:
    """Whether the ranks together read every expected id once per epoch."""
    wanted = set(expected)
    epochs = {epoch for log in logs for epoch in log.epochs}
    missing = repeated = foreign = 0
    examples: list[str] = []
    for epoch in sorted(epochs):
        seen = Counter(name for log in logs for name in log.epochs.get(epoch, ()))
        absent, strange = wanted - seen.keys(), seen.keys() - wanted
        twice = {name: count - 1 for name, count in seen.items() if count > 1}
        missing, foreign, repeated = (
            missing + len(absent),
            foreign + len(strange),
            repeated + sum(twice.values()),
        )
        examples += [*sorted(absent)[:2], *sorted(strange)[:2], *sorted(twice)[:2]]
    return Coverage(len(epochs), missing, repeated, foreign, tuple(examples[:6]))


def record_ids(objects: int) -> list[str]:
    """Ids of a revision without rejected records of a source with one record per object."""
    return [f"{index}.0" for index in range(objects)]


def _parse_line(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
