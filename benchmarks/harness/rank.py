"""A rank of data-parallel training that reads records from Kafka: `python -m ... JOB`.

Ranks meet before each step, as the exchange of gradients lets them: the slowest one sets the pace. The barrier is
the parent's: a rank writes a line when it has its batch and goes on when it gets one back.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RankJob:
    """What a rank is told."""

    bootstrap: str
    topic: str
    partitions: Sequence[int]
    """Those that it reads, all of each."""
    batch: int
    """Records of one step."""
    step_seconds: float
    """What the arithmetic of a step takes; slept, for the machine has no processor to spare."""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


def open_consumer(job: RankJob) -> Consumer:
    """Assigned to the begin of the rank's partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "bench-rank",  # never joined: assigned by hand
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": 16_384,
            "fetch.message.max.bytes": 262_144,
            "fetch.queue.backoff.ms": 10,
            "enable.metrics.push": False,
        }
    )
    consumer.assign([TopicPartition(job.topic, partition, OFFSET_BEGINNING) for partition in job.partitions])
    return consumer


def run(job: RankJob) -> None:
    """Read step by step until every partition is at its end; tell waiting and records at the end."""
    consumer = open_consumer(job)
    ended: set[int] = set()
    waiting, records = 0.0, 0
    _meet("ready")
    while len(ended) < len(job.partitions):
        began, found = time.monotonic(), 0
        while found < job.batch and len(ended) < len(job.partitions):
            for message in consumer.consume(job.batch - found, POLL_SECONDS):
                error = message.error()
                if error is None:
                    found += 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    ended.add(int(message.partition() or 0))
                else:
                    raise KafkaException(error)
        waiting += time.monotonic() - began
        records += found
        time.sleep(job.step_seconds)
        _meet("step")
    consumer.close()
    sys.stdout.write(json.dumps({"records": records, "readSeconds": round(waiting, 3)}) + "\n")
    sys.stdout.flush()


def _meet(word: str) -> None:
    """Tell the parent and wait for its answer."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    run(RankJob(**json.loads(sys.argv[1])))
