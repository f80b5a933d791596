"""Every name that two parts of Evenkeel, or Evenkeel and a user, must agree on."""

from __future__ import annotations

import hashlib
import re

API_GROUP = "evenkeel.dev"
API_VERSION = "v1alpha1"
GROUP_VERSION = f"{API_GROUP}/{API_VERSION}"

FIELD_MANAGER = "evenkeel"
"""The one field manager of server-side applies; a second one would fight with the first."""
REPORTING_CONTROLLER = "evenkeel.dev/operator"
LEASE_NAME = "evenkeel-operator"

CONTROL_TOPIC = "__evenkeel_control"
ROUTES_TOPIC = "__evenkeel_routes"
HEARTBEATS_TOPIC = "__evenkeel_heartbeats"
INTERNAL_PREFIX = "__"
DATASET_TOPIC_PREFIX = "evenkeel-"
TRANSACTIONAL_PREFIX = "evenkeel-"
_DATASET_TOPIC = re.compile(rf"{DATASET_TOPIC_PREFIX}[0-9a-f]{{20}}-(data|journal|manifest|rejected)")

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_NAME = "app.kubernetes.io/name"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_INSTANCE = "app.kubernetes.io/instance"
MANAGED_BY = "evenkeel"
LABEL_CLUSTER = "evenkeel.dev/cluster"
"""On the keeper and its ConfigMaps: the BalancedCluster's name."""
LABEL_DATASET_UID = "evenkeel.dev/dataset-uid"
"""On jobs and pods that Evenkeel makes for a dataset: its UID."""
LABEL_DATASET = "evenkeel.dev/dataset"
"""On a user's pods: selects what the operator watches; the CSI volumes say which datasets."""
LABEL_CACHE_NODE = "evenkeel.dev/cache-node"
"""On nodes that run the node cache: `true`; the only label that hard affinity may name."""
WARM_LABEL_PREFIX = "warm.evenkeel.dev/"
GATE_WARM = "evenkeel.dev/warm"
"""Scheduling gate that a user puts on pods which should wait until their dataset is warm."""
ANNOTATION_HOLD = "evenkeel.dev/hold"
FINALIZER = "evenkeel.dev/delete-topic"
FINALIZER_MOVES = "evenkeel.dev/cancel-moves"
"""On a BalancedCluster from the approval of a plan to its end: moves are cancelled before their cluster is forgotten."""

CSI_DRIVER = "cache.evenkeel.dev"
CSI_ATTRIBUTE_DATASET = "dataset"
TOKEN_AUDIENCE = "evenkeel-cache"  # noqa: S105 - an audience, not a token
GPU_RESOURCE = "nvidia.com/gpu"
GPU_LABEL = "nvidia.com/gpu.present"

JOB_VARIABLE = "EVENKEEL_JOB"
"""Environment variable of a job: its JobSpec as one JSON."""
CREDENTIALS_PATH = "/etc/evenkeel/credentials"
"""Where a Secret with Kafka credentials is mounted; one folder per use (`observe`, `move`, `dataset`)."""
CACHE_PORT = 7443
"""TCP port of the node cache (host network is not used)."""
METRICS_PORT = 8080
"""Health and metrics of every long-running process."""

DESIRED_KEY = "desired"
REPORT_KEY = "report"


def desired_name(cluster: str) -> str:
    """ConfigMap in which the operator tells the keeper what to do."""
    return f"{cluster}-desired"


def report_name(cluster: str) -> str:
    """ConfigMap in which the keeper tells the operator what it found."""
    return f"{cluster}-report"


def keeper_name(cluster: str) -> str:
    """Deployment, service account, Role and RoleBinding of the keeper of a BalancedCluster."""
    return f"{cluster}-keeper"


def short_uid(uid: str) -> str:
    """First 20 hex digits of the SHA-256 of a UID: fits in topic and label names and is not guessable."""
    return hashlib.sha256(uid.encode()).hexdigest()[:20]


def warm_label(dataset_uid: str) -> str:
    """Node label that says: this node holds the dataset's wanted revision, verified."""
    return f"{WARM_LABEL_PREFIX}{short_uid(dataset_uid)}"


def dataset_reference(namespace: str, name: str) -> str:
    """What a NodeCache calls a dataset instead of its name: 20 hex digits over `namespace/name`."""
    return hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:20]


def dataset_topic(dataset_uid: str, role: str) -> str:
    """Topic of a dataset; `role` is `data`, `journal`, `manifest` or `rejected`."""
    return f"{DATASET_TOPIC_PREFIX}{short_uid(dataset_uid)}-{role}"


def is_dataset_topic(topic: str) -> bool:
    """Whether a topic has a name that only datasets' own topics have, whoever's they are."""
    return _DATASET_TOPIC.fullmatch(topic) is not None


def transactional_id(cluster_id: str) -> str:
    """Transactional id of the one keeper of a Kafka cluster; a second keeper fences the first."""
    return f"{TRANSACTIONAL_PREFIX}{cluster_id}"
