"""A large cluster as a process: `python -m tests.support.large_cluster --brokers 50 --topics 100`.

Prints the address of one broker. Each line of its input lets time go by: every partition has grown since.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict

from evenkeel.kafka.answers import DirAnswer, PartitionAnswer, TopicAnswer, TopicPartition
from tests.support.fake_brokers import FakeBrokers, Story, topic_id

GIB, MIB = 1024**3, 1024**2
RECORD_BYTES = 1000
RECORDS_PER_TICK = 10_000
LATEST, EARLIEST = -1, -2
CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "file.delete.delay.ms": "60000",
    "min.insync.replicas": "2",
    "remote.storage.enable": "false",
    "unclean.leader.election.enable": "false",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "leader.replication.throttled.replicas": "",
    "follower.replication.throttled.replicas": "",
}


def build_story(brokers: int, topics: int, partitions: int, ticks: int = 0, copies: int = 3) -> Story:
    """`topics` x `partitions` partitions on brokers of two directories each; every topic expires by time."""
    story = Story(config=CONFIG)
    sizes: dict[tuple[int, int], dict[TopicPartition, int]] = defaultdict(dict)
    for number in range(topics):
        name = f"events-{number:04d}"
        rows = []
        for partition in range(partitions):
            place = number * partitions + partition
            replicas = tuple(
                1 + (place + step * (1 + place // brokers % (brokers - 1))) % brokers
                for step in range(copies)
            )
            if len(set(replicas)) < copies:
                replicas = tuple(1 + (place + step) % brokers for step in range(copies))
            rows.append(PartitionAnswer(partition, replicas[0], replicas, replicas))
            for broker in replicas:
                sizes[broker, place % 2][name, partition] = records(place, ticks) * RECORD_BYTES
        story.topics[name] = TopicAnswer(name, topic_id(name), internal=False, partitions=tuple(rows))
    for broker in range(1, brokers + 1):
        story.dirs[broker] = tuple(_dir(broker, index, sizes[broker, index]) for index in range(2))
    story.offset = lambda key, at: _offset(int(key[0][-4:]) * partitions + key[1], at, ticks)
    return story


def records(place: int, ticks: int) -> int:
    """Records of the partition with a number."""
    return 1_000_000 + 7_919 * (place % 997) + ticks * (RECORDS_PER_TICK + place % 7_000)


def _offset(place: int, at: int, ticks: int) -> int:
    if at == EARLIEST:
        return 0
    return records(place, ticks) if at == LATEST else records(place, 0) // 3


def _dir(broker: int, index: int, sizes: dict[TopicPartition, int]) -> DirAnswer:
    used = sum(sizes.values())
    total = 3_000 * GIB + (broker % 5) * 200 * GIB
    return DirAnswer(f"/var/lib/kafka/disk-{index}", True, total, total - used, replica_bytes=sizes)


def main(arguments: list[str]) -> int:
    """Play the cluster until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100)
    options = parser.parse_args(arguments)
    shape = (options.brokers, options.topics, options.partitions)
    with FakeBrokers(build_story(*shape)) as fake:
        print(fake.address(1), flush=True)  # noqa: T201 - its caller reads it
        for number, _ in enumerate(sys.stdin):
            fake.story = build_story(*shape, ticks=number + 1)
            fake.forget()
            print("ticked", flush=True)  # noqa: T201 - as above
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
