"""Every kind of object that Evenkeel touches, and where the API server keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel import names


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API server serves it."""

    group_version: str
    """`v1` or `GROUP/VERSION`."""
    plural: str
    namespaced: bool
    kind: str

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """URL path of the collection, of one object, or of a subresource of it."""
        root = f"/apis/{self.group_version}" if "/" in self.group_version else f"/api/{self.group_version}"
        parts = [root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts.extend(part for part in (name, subresource) if part)
        return "/".join(parts)

    def header(self) -> dict[str, Any]:
        """The first two lines of every object of this kind."""
        return {"apiVersion": self.group_version, "kind": self.kind}


BALANCED_CLUSTER = Resource(names.GROUP_VERSION, "balancedclusters", namespaced=True, kind="BalancedCluster")
BALANCED_TOPIC = Resource(names.GROUP_VERSION, "balancedtopics", namespaced=True, kind="BalancedTopic")
REBALANCE_PLAN = Resource(names.GROUP_VERSION, "rebalanceplans", namespaced=True, kind="RebalancePlan")
TRAINING_DATASET = Resource(names.GROUP_VERSION, "trainingdatasets", namespaced=True, kind="TrainingDataset")
NODE_CACHE = Resource(names.GROUP_VERSION, "nodecaches", namespaced=False, kind="NodeCache")
OWN_KINDS = (BALANCED_CLUSTER, BALANCED_TOPIC, REBALANCE_PLAN, TRAINING_DATASET, NODE_CACHE)

CONFIG_MAP = Resource("v1", "configmaps", namespaced=True, kind="ConfigMap")
SERVICE_ACCOUNT = Resource("v1", "serviceaccounts", namespaced=True, kind="ServiceAccount")
POD = Resource("v1", "pods", namespaced=True, kind="Pod")
NODE = Resource("v1", "nodes", namespaced=False, kind="Node")
NAMESPACE = Resource("v1", "namespaces", namespaced=False, kind="Namespace")
VOLUME_CLAIM = Resource("v1", "persistentvolumeclaims", namespaced=True, kind="PersistentVolumeClaim")
PERSISTENT_VOLUME = Resource("v1", "persistentvolumes", namespaced=False, kind="PersistentVolume")
DEPLOYMENT = Resource("apps/v1", "deployments", namespaced=True, kind="Deployment")
JOB = Resource("batch/v1", "jobs", namespaced=True, kind="Job")
ROLE = Resource("rbac.authorization.k8s.io/v1", "roles", namespaced=True, kind="Role")
ROLE_BINDING = Resource("rbac.authorization.k8s.io/v1", "rolebindings", namespaced=True, kind="RoleBinding")
LEASE = Resource("coordination.k8s.io/v1", "leases", namespaced=True, kind="Lease")
EVENT = Resource("events.k8s.io/v1", "events", namespaced=True, kind="Event")
TOKEN_REVIEW = Resource("authentication.k8s.io/v1", "tokenreviews", namespaced=False, kind="TokenReview")
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False, kind="CustomResourceDefinition"
)
STRIMZI_GROUP = "kafka.strimzi.io"


def kafka_topic(version: str) -> Resource:
    """Strimzi's KafkaTopic in a version that is served: `v1`, and `v1beta2` before."""
    return Resource(f"{STRIMZI_GROUP}/{version}", "kafkatopics", namespaced=True, kind="KafkaTopic")
