"""What a test cluster is made of, and the properties files that say so to Kafka."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.provision import jars

CONTROLLER_ID = 100
ADMIN = "admin"
MECHANISM = "SCRAM-SHA-512"
# For tests that wait for a broker's death: seen after 3 s, not 9. Too nervous for a busy machine
# where nothing dies.
QUICK_DEATH = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@dataclasses.dataclass(frozen=True)
class BrokerSpec:
    """One broker.

    Attributes:
        id: node id, 1 to 99.
        rack: broker.rack, `rack<id>` where empty.
        disks: its log dirs: MiB of an ext4 file system of its own (needs root), or None for a plain
            directory. Two or more make JBOD.
    """

    id: int
    rack: str = ""
    disks: tuple[int | None, ...] = (None,)

    def __post_init__(self) -> None:
        if not 1 <= self.id < CONTROLLER_ID:
            raise ValueError(f"BrokerSpec.id is {self.id}, must be 1 to {CONTROLLER_ID - 1}")
        if not self.disks:
            raise ValueError("BrokerSpec.disks is empty, a broker needs one at least")


@dataclasses.dataclass(frozen=True)
class Sasl:
    """SCRAM-SHA-512 for clients and between brokers, StandardAuthorizer, nothing allowed by default.

    Attributes:
        users: name -> password. The superuser `admin` is added.
        admin_password: its password, made up where not given.
    """

    users: Mapping[str, str]
    admin_password: str = dataclasses.field(default_factory=lambda: secrets.token_hex(8), repr=False)

    def passwords(self) -> dict[str, str]:
        return {**self.users, ADMIN: self.admin_password}


@dataclasses.dataclass(frozen=True)
class Layout:
    """The fixed part of one cluster: addresses and directories of every node."""

    brokers: tuple[BrokerSpec, ...]
    ports: Mapping[int, int]
    log_dirs: Mapping[int, Sequence[Path]]
    metadata: Path
    security: Sasl | None
    properties: Mapping[str, str]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(broker.id) for broker in self.brokers)

    def address(self, broker: int) -> str:
        """`host:port` of one broker."""
        return f"127.0.0.1:{self.ports[broker]}"


def build_broker(layout: Layout, spec: BrokerSpec) -> str:
    """The server.properties of one broker."""
    address = f"{_listener(layout)}://{layout.address(spec.id)}"
    return _render(
        {
            **_shared(layout),
            "process.roles": "broker",
            "node.id": str(spec.id),
            "broker.rack": spec.rack or f"rack{spec.id}",
            "listeners": address,
            "advertised.listeners": address,
            "inter.broker.listener.name": _listener(layout),
            "log.dirs": ",".join(map(str, layout.log_dirs[spec.id])),
            # Never on a data disk: a full one would take the broker's metadata with it.
            "metadata.log.dir": str(layout.metadata / str(spec.id)),
            **_secure_broker(layout.security),
            **layout.properties,
        }
    )


def build_controller(layout: Layout) -> str:
    """The server.properties of the only controller, a process of its own."""
    return _render(
        {
            **_shared(layout),
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "default.replication.factor": str(_replicas(layout)),
            "listeners": f"CONTROLLER://127.0.0.1:{layout.ports[CONTROLLER_ID]}",
            "log.dirs": str(layout.metadata / str(CONTROLLER_ID)),
            **layout.properties,
        }
    )


def _listener(layout: Layout) -> str:
    return "CLIENT" if layout.security else "PLAINTEXT"


def _replicas(layout: Layout) -> int:
    return min(3, len(layout.brokers))


def _shared(layout: Layout) -> dict[str, str]:
    replicas = _replicas(layout)
    protocol = "SASL_PLAINTEXT" if layout.security else "PLAINTEXT"
    return {
        "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{layout.ports[CONTROLLER_ID]}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"{_listener(layout)}:{protocol},CONTROLLER:PLAINTEXT",
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
        "transaction.state.log.num.partitions": "4",
        "min.insync.replicas": str(max(1, replicas - 1)),
        "log.segment.bytes": "16777216",
        "log.retention.check.interval.ms": "5000",
        "log.initial.task.delay.ms": "5000",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        # The controller would move leaders behind the back of a test.
        "auto.leader.rebalance.enable": "false",
        "controlled.shutdown.max.retries": "1",
        "num.network.threads": "2",
        "num.io.threads": "4",
        **jars.SMALL_HEAP,
        **_secure_node(layout.security),
    }


def _secure_node(security: Sasl | None) -> dict[str, str]:
    if security is None:
        return {}
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # ANONYMOUS is who comes over the controller's plain listener: right for tests only.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
    }


def _secure_broker(security: Sasl | None) -> dict[str, str]:
    if security is None:
        return {}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="{ADMIN}" password="{security.admin_password}";'
    return {
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "listener.name.client.scram-sha-512.sasl.jaas.config": login,
    }


def _render(lines: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in lines.items())
