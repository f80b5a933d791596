"""What an ingest has still to write, when its journal lags behind the disks.

Producers journal what was acknowledged some seconds after it lies on the disks. Counted by the journal
alone those bytes would be on the disks and still to come: the plan would expect fuller disks than there
will be, and send more to the fullest one (seen in the demo: 1.4 % of its capacity).
"""

from __future__ import annotations

from evenkeel.keeper.growth import leader_bytes
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.routes import Ingest


class Backlog:
    """Remaining bytes of running ingests, by journal and disks together."""

    def __init__(self) -> None:
        self._bases: dict[str, tuple[int | None, int]] = {}

    def remaining(self, topic: str, ingest: Ingest, on_disk: int | None) -> int | None:
        """Bytes before replication that `ingest` has still to write to `topic`; None before its plan.

        `on_disk` are the topic's bytes before replication. What lay there beyond the journal when a plan was
        first seen (attempts that failed, another revision) is no progress of that plan.
        """
        if ingest.remaining_bytes is None or ingest.planned_bytes is None or on_disk is None:
            return ingest.remaining_bytes
        beyond = on_disk - (ingest.planned_bytes - ingest.remaining_bytes)
        offset, base = self._bases.get(topic, (None, 0))
        if topic not in self._bases or offset != ingest.plan_offset:
            base = max(0, beyond)
            self._bases[topic] = (ingest.plan_offset, base)
        return ingest.remaining_bytes - min(ingest.remaining_bytes, max(0, beyond - base))


def topic_bytes(measurement: Measurement) -> dict[str, int] | None:
    """Bytes of every topic before replication; None where a broker is silent."""
    if not all(isinstance(answer, tuple) for answer in measurement.dirs.values()):
        return None
    found = dict.fromkeys(measurement.topics, 0)
    for (topic, _), size in leader_bytes(measurement).items():
        found[topic] += size
    return found
