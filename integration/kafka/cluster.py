"""A Kafka cluster of processes: one controller and N brokers, their disks, and what befalls them.

with KafkaCluster.start([BrokerSpec(1, disks=(512,)), BrokerSpec(2, disks=(1024,))]) as cluster:
    Producer({"bootstrap.servers": cluster.bootstrap})
    cluster.kill(1)
"""

from __future__ import annotations

import functools
import logging
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from integration.kafka import settings
from integration.kafka.disks import Disk
from integration.kafka.network import Network
from integration.kafka.settings import ADMIN, CONTROLLER_ID, MECHANISM, BrokerSpec, Layout, Sasl
from integration.processes import Process, ServerError, wait_until
from integration.workspace import Workspace
from scripts.provision import jars

THREE = (BrokerSpec(1), BrokerSpec(2), BrokerSpec(3))
_STARTED = "Kafka Server started"
_quiet = logging.getLogger("integration.kafka.quiet")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class KafkaCluster:
    """Brokers and controller, running until `close`. Made by `start`."""

    def __init__(
        self,
        layout: Layout,
        disks: Mapping[int, list[Disk]],
        workspace: Workspace,
        network: Network | None = None,
    ) -> None:
        self.layout = layout
        self._network = network
        self._disks = disks
        self._workspace = workspace
        self._home = jars.ensure()
        self._running: dict[int, Process] = {}

    @classmethod
    def start(
        cls,
        brokers: Sequence[BrokerSpec] = THREE,
        *,
        security: Sasl | None = None,
        properties: Mapping[str, str] | None = None,
        network: Network | None = None,
        seconds: float = 60,
    ) -> Self:
        """A fresh cluster, every broker registered.

        `properties` are added to the files of all nodes and win over ours; `network` can cut its nodes off.

        Raises:
            ServerError: a node ended, or the brokers did not register within `seconds`.
            OSError: a disk of a chosen size cannot be mounted (needs root and loop devices).
        """
        jars.ensure()
        workspace = Workspace("kafka")
        try:
            disks = {spec.id: _make_disks(workspace.path, spec) for spec in brokers}
            layout = Layout(
                brokers=tuple(brokers),
                ports={node: workspace.lease_port() for node in [*disks, CONTROLLER_ID]},
                log_dirs={node: [disk.log_dir for disk in own] for node, own in disks.items()},
                metadata=workspace.path / "metadata",
                security=security,
                properties=dict(properties or {}),
            )
            cluster = cls(layout, disks, workspace, network)
            cluster._format()
            for node in [CONTROLLER_ID, *disks]:
                cluster._launch(node)
            # Kafka lists a broker before its port is open to everybody (seen once in hundreds of starts).
            for node in disks:
                cluster._wait_started(node, seconds)
            cluster.wait_registered(seconds)
        except BaseException:
            workspace.close()
            raise
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, running or not, with commas."""
        return self.layout.bootstrap

    def client_config(self, user: str | None = None, password: str | None = None) -> dict[str, Any]:
        """Configuration of a confluent-kafka client.

        With SASL as `user` (the superuser where None), with the right password where None.
        """
        security = self.layout.security
        config: dict[str, Any] = {"bootstrap.servers": self.bootstrap}
        if security is not None:
            name = user or ADMIN
            config |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": MECHANISM,
                "sasl.username": name,
                "sasl.password": password if password is not None else security.passwords()[name],
            }
        return config

    def admin_config(self, user: str | None = None, password: str | None = None) -> dict[str, Any]:
        """The same as arguments of a kafka-python client."""
        config = self.client_config(user, password)
        renamed = {key.replace(".", "_"): value for key, value in config.items()}
        for ours, theirs in (
            ("sasl_username", "sasl_plain_username"),
            ("sasl_password", "sasl_plain_password"),
        ):
            if ours in renamed:
                renamed[theirs] = renamed.pop(ours)
        return renamed

    def kill(self, broker: int) -> None:
        """SIGKILL. Kafka lists it as alive for about 9 s more (broker.session.timeout.ms)."""
        self._running.pop(broker).kill()

    def freeze(self, broker: int) -> None:
        """SIGSTOP: it keeps its sockets and answers nothing; Kafka lists it as alive for about 9 s more."""
        self._running[broker].freeze()

    def thaw(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self._running[broker].thaw()

    def stop(self, broker: int, seconds: float = 30) -> None:
        """Controlled shutdown."""
        self._running.pop(broker).stop(seconds)

    def start_broker(self, broker: int, seconds: float = 60) -> None:
        """Start a broker that is down; returns when it serves.

        Within the session time-out of its last life (9 s, also after `stop`) Kafka refuses it as a
        duplicate until that has passed: `settings.QUICK_DEATH` shortens it to 3 s.

        Raises:
            ServerError: it ended, or does not serve within `seconds`.
        """
        if self.running(broker):
            raise ValueError(f"broker {broker} runs already")
        self._launch(broker)
        self._wait_started(broker, seconds)

    def running(self, broker: int) -> bool:
        """Whether its process runs; a broker whose disk is full ends by itself."""
        return broker in self._running and self._running[broker].running

    def stop_controller(self) -> None:
        """SIGKILL of the only controller: reads and writes go on, nothing can be changed."""
        self.kill(CONTROLLER_ID)

    def start_controller(self, seconds: float = 60) -> None:
        """Start the controller again; returns when it has started."""
        self.start_broker(CONTROLLER_ID, seconds)

    def fill(
        self, broker: int, size: int | None = None, *, fraction: float | None = None, disk: int = 0
    ) -> int:
        """Set one disk's ballast to `size` bytes (0 removes it), or to use `fraction` of the disk.

        Returns the ballast's bytes. Errors as `Disk.fill`.
        """
        return self._disks[broker][disk].fill(size, fraction)

    def usable_bytes(self, broker: int, disk: int = 0) -> int:
        """Free bytes of one disk, as Kafka reports them."""
        return self._disks[broker][disk].usable_bytes()

    def total_bytes(self, broker: int, disk: int = 0) -> int:
        """Size of one disk, as Kafka reports it."""
        return self._disks[broker][disk].total_bytes()

    def log_dir(self, broker: int, disk: int = 0) -> Path:
        """The directory that Kafka knows the disk by."""
        return self._disks[broker][disk].log_dir

    def logs(self, broker: int) -> str:
        """What the broker (or the controller, id 100) has logged, over all its starts."""
        path = self._workspace.path / f"node-{broker}.log"
        return path.read_text(errors="replace")

    def wait_registered(self, seconds: float = 60) -> None:
        """Wait until each broker that runs lists exactly those that run (after `kill` about 10 s).

        They learn of each other one after the other, and a client asks any of them.

        Raises:
            ServerError: not within `seconds`, or a node that should run has ended.
        """
        wanted = {node for node in self._running if node != CONTROLLER_ID}
        processes = list(self._running.values())
        for broker in sorted(wanted):
            config = {**self.client_config(), "bootstrap.servers": self.layout.address(broker)}
            wait_until(
                f"brokers {sorted(wanted)} as broker {broker} lists them",
                functools.partial(_lists, config, wanted),
                seconds=seconds,
                every=0.1,
                processes=processes,
            )

    def close(self) -> None:
        """Stop brokers, then the controller (the other way round they hang); remove everything."""
        brokers = [process for node, process in self._running.items() if node != CONTROLLER_ID]
        for process in brokers:
            # Nothing here outlives the test: what a clean stop would save is removed next.
            process.kill()
        self._running.clear()
        self._workspace.close()

    def _format(self) -> None:
        """Give every directory the cluster's identity.

        Kafka's tool makes the controller's, with the users. What it writes into a broker's
        directories is only this text, and it costs half a second of Java per broker.
        """
        identity = _random_uuid()
        for spec in self.layout.brokers:
            self._properties(spec.id).write_text(settings.build_broker(self.layout, spec))
            for path in [*self.layout.log_dirs[spec.id], self.layout.metadata / str(spec.id)]:
                path.mkdir(parents=True, exist_ok=True)
                (path / "meta.properties").write_text(
                    f"version=1\ncluster.id={identity}\nnode.id={spec.id}\ndirectory.id={_random_uuid()}\n"
                )
        properties = self._properties(CONTROLLER_ID)
        properties.write_text(settings.build_controller(self.layout))
        tool = self._home.command("kafka.tools.StorageTool", "format", "-t", identity, "-c", properties)
        process = self._workspace.launch("format", [*tool, *_scram(self.layout.security)])
        if process.wait(60) != 0:
            raise ServerError(f"format: {process.output()[-3000:]}")

    def _launch(self, node: int) -> Process:
        command = self._home.command("kafka.Kafka", self._properties(node))
        self._running[node] = self._workspace.launch(f"node-{node}", command)
        if self._network is not None:
            self._network.join(node, self._running[node].pid)  # long before Java makes its first socket
        return self._running[node]

    def _wait_started(self, node: int, seconds: float) -> None:
        process = self._running[node]
        wait_until(
            f"broker {node}", lambda: _STARTED in process.output(), seconds=seconds, processes=[process]
        )

    def _properties(self, node: int) -> Path:
        return self._workspace.path / f"node-{node}.properties"


def _make_disks(path: Path, spec: BrokerSpec) -> list[Disk]:
    return [Disk(path / f"disk-{spec.id}-{index}", size) for index, size in enumerate(spec.disks)]


def _random_uuid() -> str:
    """Kafka's text form; it takes none that begins with a dash as an argument."""
    return f"E{urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]}"


def _scram(security: Sasl | None) -> Iterable[str]:
    for name, password in (security.passwords() if security else {}).items():
        yield "--add-scram"
        yield f"{MECHANISM}=[name={name},password={password}]"


def _lists(config: Mapping[str, Any], wanted: set[int]) -> bool:
    """Whether the one broker of `config` lists `wanted`; a client that has not asked before is connected to no other."""
    patient = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 100}
    try:
        return set(AdminClient({**config, **patient}, logger=_quiet).list_topics(timeout=5).brokers) == wanted
    except KafkaException:
        return False
