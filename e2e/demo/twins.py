"""What default partitioning does: the same messages written by a plain producer into a topic like the ingest's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from e2e.demo import fills
from e2e.demo.fills import Gauge
from e2e.demo.messages import Load, placeholder
from evenkeel.domain.connection import Connection
from evenkeel.ingest.outbox import build_config
from evenkeel.kafka.topics import guarded_config
from scripts.provision.steps import StepFailed

TOPIC = "default-twin"
ROUNDS = 3
FLUSH_SECONDS = 300
OWN_SETTINGS = "evenkeel."


def measure(
    gauge: Gauge, bootstrap: str, load: Load, assignments: Sequence[Sequence[int]], rounds: int = ROUNDS
) -> tuple[dict[int, float], ...]:
    """Write `load` `rounds` times -> fills after each time; the topic and its bytes are gone between and after.

    Raises:
        StepFailed: a message was not acknowledged, or deleted bytes do not go away.
        EvenkeelError: the brokers do not answer.
    """
    before = gauge.read_still()
    config = guarded_config(len(assignments[0]))
    found = []
    for _ in range(rounds):
        gauge.patiently(lambda: gauge.admin.create_topic(TOPIC, [*map(tuple, assignments)], config))
        try:
            write(bootstrap, load)
            found.append(fills.fills(gauge.read_still()))
        finally:
            gauge.patiently(lambda: gauge.admin.delete_topic(TOPIC))
        gauge.wait_back(before)
    return tuple(found)


def write(bootstrap: str, load: Load) -> None:
    """Write every message without key and partition, with the settings of the ingest's client.

    Raises:
        StepFailed: not all were acknowledged.
    """
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(plain_config(bootstrap, load))
    for value, headers in load.messages:
        while True:
            try:
                producer.produce(TOPIC, value, headers=headers, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                raise StepFailed(f"the twin of the ingest cannot be written: {error}") from error
        producer.poll(0)
    # One second at a time: a longer wait could not be interrupted.
    left = next((0 for _ in range(FLUSH_SECONDS) if producer.flush(1) == 0), len(producer))
    if left or failures:
        raise StepFailed(f"the twin of the ingest: {left} messages unacknowledged, failed: {failures[:1]}")


def plain_config(bootstrap: str, load: Load) -> dict[str, Any]:
    """The ingest's client settings without routing."""
    settings = build_config(Connection(tuple(bootstrap.split(","))), placeholder(TOPIC), load.settings, 0)
    plain = {key: value for key, value in settings.items() if not key.startswith(OWN_SETTINGS)}
    return {**plain, "log_level": 3}  # the client's warnings of the first second are no news here
