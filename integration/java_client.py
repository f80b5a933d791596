"""Kafka's Java producer with our partitioner, as a process that tests tell what to write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from integration.kafka.cluster import KafkaCluster
from scripts.provision import jars
from scripts.provision.partitioner import Partitioner

CLASS = "dev.evenkeel.partitioner.EvenkeelPartitioner"
PACKAGE = "dev.evenkeel.partitioner"


def java_config(cluster: KafkaCluster, **settings: Any) -> dict[str, str]:
    """A Java producer's configuration for a cluster without security; `_` in names stands for a dot."""
    fixed = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.metrics.push": "false"}
    return fixed | {name.replace("_", "."): str(value) for name, value in settings.items()}


def sasl_config(cluster: KafkaCluster, user: str) -> dict[str, str]:
    """What to add to log in as `user`."""
    login = cluster.client_config(user)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    name, password = login["sasl.username"], login["sasl.password"]
    return {
        "security.protocol": login["security.protocol"],
        "sasl.mechanism": login["sasl.mechanism"],
        "sasl.jaas.config": f'{module} required username="{name}" password="{password}";',
    }


def write_properties(path: Path, config: Mapping[str, str]) -> Path:
    """A properties file; values are our own and hold no character that needs escaping."""
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    return path


def java_command(
    home: jars.KafkaHome, built: Partitioner, main: str, *arguments: str | Path, heap_mib: int = 128
) -> list[str]:
    """The words that run one of the programs beside the partitioner's tests."""
    class_path = f"{home.class_path}:{built.jar}:{built.test_classes}"
    flags = ["-XX:+UseSerialGC", f"-Xmx{heap_mib}m", f"-Dlog4j2.configurationFile={jars.LOGGING}"]
    return ["java", *flags, "-cp", class_path, f"{PACKAGE}.{main}", *map(str, arguments)]


class JavaWriter:
    """One producer process; leaving the context ends it."""

    def __init__(
        self, home: jars.KafkaHome, built: Partitioner, folder: Path, config: Mapping[str, str]
    ) -> None:
        file = write_properties(folder / "producer.properties", config)
        self._log = (folder / "java.log").open("wb")
        self._child = subprocess.Popen(
            java_command(home, built, "Writer", file),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(60)
        finally:
            self._child.kill()
            self._child.wait()
            self._child.stdout.close()
            self._log.close()

    def _ask(self, command: str) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{command}\n".encode())
        self._child.stdin.flush()
        for line in self._child.stdout:
            if line.startswith(b"{"):  # the others are log lines
                return json.loads(line)
        raise AssertionError(f"the Java producer ended at: {command}\n{Path(self._log.name).read_text()}")

    def send(self, topic: str, count: int, size: int) -> dict[int, float]:
        """Write records without a key -> share of the bytes by partition, as acknowledged."""
        answer = self._ask(f"send {topic} {count} {size}")
        assert answer["failed"] == 0, answer
        whole = sum(answer["bytes"].values())
        assert whole == count * size
        return {int(partition): size / whole for partition, size in answer["bytes"].items()}

    def keyed(self, topic: str, count: int) -> list[int]:
        """Write records with the keys `key-0` to `key-<count - 1>` -> their partitions."""
        partitions: list[int] = self._ask(f"keyed {topic} {count}")["partitions"]
        return partitions

    def stats(self) -> dict[str, Any]:
        """The router's counters: modes and epochs by topic, counts, the newest problem."""
        answer: dict[str, Any] = self._ask("stats")
        return answer
