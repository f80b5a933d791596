"""Kubernetes objects of a Kafka cluster in pods: one controller, brokers on disks of their own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMESPACE = "kafka"
CLUSTER_ID = "ZXZlbmtlZWwtZGVtby0wMQ"
CONTROLLER_ID = 100
INTERNAL_PORT = 9092
CONTROLLER_PORT = 9093
FIRST_HOST_PORT = 19092
USER = 10001
HEAP = "192m"

Object = dict[str, Any]


@dataclass(frozen=True)
class BrokerPlace:
    """One broker: where it runs and how large its disk is."""

    id: int
    node: str
    mebibytes: int | None
    """Size of its own file system at `path`; None: the node's disk, where no file system can be mounted."""

    @property
    def name(self) -> str:
        """StatefulSet, volume and claim."""
        return f"kafka-{self.id}"

    @property
    def path(self) -> str:
        """Mount point on the node."""
        return f"/var/lib/evenkeel-kafka/{self.name}"

    @property
    def host_port(self) -> int:
        """Port on the node's address through which the machine itself reaches the broker."""
        return FIRST_HOST_PORT + self.id


def bootstrap(brokers: Sequence[BrokerPlace]) -> list[str]:
    """Addresses for pods."""
    return [f"{_host(broker.name)}:{INTERNAL_PORT}" for broker in brokers]


def build_cluster(brokers: Sequence[BrokerPlace], image: str) -> list[Object]:
    """Everything, in an order in which it can be applied."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _headless_service(),
        *_node("kafka-controller", _controller_properties(), image, None),
        *(item for broker in brokers for item in _volume(broker)),
        *(
            item
            for broker in brokers
            for item in _node(broker.name, _broker_properties(broker), image, broker)
        ),
    ]


def _host(name: str) -> str:
    return f"{name}-0.kafka.{NAMESPACE}.svc.cluster.local"


def _headless_service() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kafka", "namespace": NAMESPACE},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app": "kafka"},
            "ports": [{"name": "internal", "port": INTERNAL_PORT}],
        },
    }


def _volume(broker: BrokerPlace) -> list[Object]:
    size = f"{broker.mebibytes or 1024}Mi"
    claim = {"namespace": NAMESPACE, "name": broker.name}
    matches = {"key": "kubernetes.io/hostname", "operator": "In", "values": [broker.node]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": broker.name},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "local": {"path": broker.path},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [matches]}]}},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": claim,
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": broker.name,
                "resources": {"requests": {"storage": size}},
            },
        },
    ]


def _node(name: str, properties: dict[str, str], image: str, broker: BrokerPlace | None) -> list[Object]:
    meta = {"name": name, "namespace": NAMESPACE}
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    labels = {"app": "kafka", "node": name}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"server.properties": text}},
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": meta,
            "spec": {
                "serviceName": "kafka",
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _pod(name, image, broker)},
            },
        },
    ]


def _pod(name: str, image: str, broker: BrokerPlace | None) -> Object:
    ports = [{"containerPort": CONTROLLER_PORT}]
    if broker is not None:
        ports = [
            {"containerPort": broker.host_port, "hostPort": broker.host_port},
            {"containerPort": INTERNAL_PORT},
        ]
    data: Object = {"name": "data", "emptyDir": {}}
    if broker is not None:
        data = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return {
        "terminationGracePeriodSeconds": 10,
        "securityContext": {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER},
        "containers": [
            {
                "name": "kafka",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "ports": ports,
                "env": [
                    {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                    {"name": "CLUSTER_ID", "value": CLUSTER_ID},
                    {"name": "HEAP", "value": HEAP},
                ],
                "readinessProbe": {"tcpSocket": {"port": ports[-1]["containerPort"]}, "periodSeconds": 1},
                "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "768Mi"}},
                "volumeMounts": [
                    {"name": "config", "mountPath": "/config"},
                    {"name": "metadata", "mountPath": "/metadata"},
                    {"name": "data", "mountPath": "/data"},
                ],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": name}},
            {"name": "metadata", "emptyDir": {}},
            data,
        ],
    }


def _common_properties() -> dict[str, str]:
    return {
        "controller.quorum.voters": f"{CONTROLLER_ID}@{_host('kafka-controller')}:{CONTROLLER_PORT}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        # On a disk of its own: a data disk that is full must not take the quorum with it.
        "metadata.log.dir": "/metadata/log",
    }


def _controller_properties() -> dict[str, str]:
    return {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "listeners": f"CONTROLLER://:{CONTROLLER_PORT}",
        "log.dirs": "/data/controller",
        **_common_properties(),
    }


def _broker_properties(broker: BrokerPlace) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "node.id": str(broker.id),
        "listeners": f"INTERNAL://:{INTERNAL_PORT},EXTERNAL://:{broker.host_port}",
        "advertised.listeners": (
            f"INTERNAL://{_host(broker.name)}:{INTERNAL_PORT},EXTERNAL://@HOST_IP@:{broker.host_port}"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": "/data/kafka",
        **_common_properties(),
        "log.segment.bytes": "16777216",
        # Deleted bytes leave the disk within a second, so that the three twins of the demo start alike.
        "log.segment.delete.delay.ms": "1000",
        "log.retention.check.interval.ms": "5000",
        "log.initial.task.delay.ms": "1000",
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.cleaner.threads": "1",
        "message.max.bytes": "9437184",
        "replica.fetch.max.bytes": "9437184",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        # Leaders stay where the experiment put them.
        "auto.leader.rebalance.enable": "false",
    }
