"""Bring a Kafka cluster into the nodes of a kind cluster, each broker on a disk of its own size."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from e2e.cluster import disks, loading
from e2e.cluster.lifecycle import Cluster
from e2e.kafka import manifests
from e2e.kafka.manifests import BrokerPlace
from scripts.provision import docker, images, jars, steps

FOLDER = Path(__file__).resolve().parent
READY_SECONDS = 420.0
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class KafkaInPods:
    """A running cluster and its two sets of addresses."""

    brokers: tuple[BrokerPlace, ...]
    bootstrap: tuple[str, ...]
    """For pods."""
    host_bootstrap: str
    """For processes of this machine, with commas."""

    @property
    def has_disks(self) -> bool:
        """Whether each broker has a file system of its own; else nothing about fills can be measured."""
        return all(broker.mebibytes is not None for broker in self.brokers)


def base_image() -> str:
    """What Kafka's image is made of: Kafka's own where it can be pulled, else Java alone."""
    return images.KAFKA_IMAGE if images.pull(images.KAFKA_IMAGE) else images.jre_image()


def image() -> str:
    """Kafka's image -> tag."""
    base = base_image()
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        if base == images.KAFKA_IMAGE:
            (context / "libs").mkdir()  # its jars are in /opt/kafka/libs already
        else:
            shutil.copytree(jars.ensure_libs(), context / "libs")
        shutil.copy(jars.LOGGING, context)
        shutil.copy(FOLDER / "start-node", context)
        return images.build_image(
            "kafka",
            dockerfile=FOLDER / "Dockerfile",
            context=context,
            args={"BASE_IMAGE": base},
        )


def place_brokers(cluster: Cluster, mebibytes: Sequence[int]) -> list[BrokerPlace]:
    """Brokers 1..n over the workers in turn, with mounted disks where the machine can mount file systems."""
    workers = cluster.workers
    places = [BrokerPlace(i + 1, workers[i % len(workers)], size) for i, size in enumerate(mebibytes)]
    try:
        for place in places:
            disks.make_disk(place.node, place.name, place.mebibytes or 0, place.path, manifests.USER)
    except steps.StepFailed as error:
        steps.say(f"no file system can be mounted here, fills are not measured: {error}")
        places = [BrokerPlace(place.id, place.node, None) for place in places]
        for place in places:
            docker.call("exec", place.node, "install", "-d", "-o", str(manifests.USER), place.path)
    return places


def deploy(cluster: Cluster, mebibytes: Sequence[int]) -> KafkaInPods:
    """Disks, image and pods; returns when every broker answers and knows all the others.

    Raises:
        steps.StepFailed: it did not come up in time; the message has the state of the pods.
    """
    tag = image()
    with steps.step("broker disks"):
        places = place_brokers(cluster, mebibytes)
    loading.load(tag, cluster.name, cluster.workers)
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests.build_cluster(places, tag)})
    with steps.step("Kafka: a controller and brokers in pods"):
        cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=body)
        kafka = KafkaInPods(
            tuple(places), tuple(manifests.bootstrap(places)), host_addresses(cluster, places)
        )
        _wait_registered(cluster, kafka)
    return kafka


def host_addresses(cluster: Cluster, places: Sequence[BrokerPlace]) -> str:
    """Addresses of the brokers for processes of this machine, with commas."""
    path = (
        '{range .items[*]}{.metadata.name} {.status.addresses[?(@.type=="InternalIP")].address}{"\\n"}{end}'
    )
    said = cluster.kubectl("get", "nodes", "--output", f"jsonpath={path}")
    addresses = dict(line.split() for line in said.splitlines() if line.strip())
    return ",".join(f"{addresses[place.node]}:{place.host_port}" for place in places)


def _wait_registered(cluster: Cluster, kafka: KafkaInPods) -> None:
    try:
        wait_listed(kafka.host_bootstrap.split(","), {place.id for place in kafka.brokers})
    except steps.StepFailed as error:
        pods = cluster.kubectl("--namespace", manifests.NAMESPACE, "get", "pods", "--output", "wide")
        raise steps.StepFailed(f"{error}\n{pods}") from error


def list_brokers(address: str) -> set[int]:
    """The brokers that the one at this address knows.

    Raises:
        KafkaException: it does not answer.
    """
    # A new client each time: one that has learned of the others may ask them instead.
    admin = AdminClient({"bootstrap.servers": address, "reconnect.backoff.max.ms": 500, "log_level": 0})
    return set(admin.list_topics(timeout=2).brokers)


def wait_listed(
    addresses: Sequence[str],
    wanted: Collection[int],
    ask: Callable[[str], set[int]] = list_brokers,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until each address answers and lists `wanted`: one broker may list another before that one accepts.

    Raises:
        StepFailed: one does not within `READY_SECONDS`; with what it says instead.
    """
    deadline = monotonic() + READY_SECONDS
    for address in addresses:
        while True:
            try:
                found = ask(address)
                said = f"lists {sorted(found)}"
            except KafkaException as error:
                found, said = set(), f"does not answer: {error}"
            if found == set(wanted):
                break
            if monotonic() > deadline:
                limit = f"not brokers {sorted(wanted)} within {READY_SECONDS:.0f} s"
                raise steps.StepFailed(f"{limit}: {address} {said}")
            pause(POLL_SECONDS)
