"""Which BalancedCluster a topic or dataset belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.meta import AllowedNamespaces, NamespaceSource, ObjectRef
from evenkeel.reasons import Reason


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for a cluster."""

    namespace: str
    labels: Mapping[str, str]
    """Of the namespace."""
    wanted: ObjectRef | None
    """spec.clusterRef."""
    given: ObjectRef | None
    """status.clusterRef: chosen once, and kept."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The cluster, or why there is none."""

    cluster: BalancedCluster | None
    reason: Reason = Reason.READY
    message: str = ""

    @property
    def ref(self) -> ObjectRef | None:
        """What status.clusterRef should say."""
        if self.cluster is None:
            return None
        meta = self.cluster.metadata
        return ObjectRef(name=meta.name, namespace=meta.namespace)


def choose_cluster(asker: Asker, clusters: Sequence[BalancedCluster]) -> Choice:
    """The cluster that was given, else that is asked for, else the only one that admits the namespace."""
    ref = asker.given or asker.wanted
    if ref is None:
        return _choose_only(asker, [one for one in clusters if admits_asker(one, asker)])
    namespace = ref.namespace or asker.namespace
    found = next((one for one in clusters if one.key == f"{namespace}/{ref.name}"), None)
    if found is None:
        return Choice(
            None,
            Reason.CLUSTER_NOT_FOUND,
            f"clusterRef: BalancedCluster {namespace}/{ref.name} does not exist",
        )
    if not admits_asker(found, asker):
        message = f"clusterRef: BalancedCluster {found.key} does not admit namespace {asker.namespace}"
        return Choice(None, Reason.NO_CLUSTER_PERMITTED, f"{message}; see its spec.allowedNamespaces")
    return Choice(found)


def _choose_only(asker: Asker, admitting: Sequence[BalancedCluster]) -> Choice:
    if not admitting:
        message = f"no BalancedCluster admits namespace {asker.namespace}; create one or widen its allowedNamespaces"
        return Choice(None, Reason.NO_CLUSTER_PERMITTED, message)
    if len(admitting) > 1:
        listed = ", ".join(sorted(one.key for one in admitting)[:5])
        message = (
            f"{len(admitting)} BalancedClusters admit namespace {asker.namespace} ({listed}): set clusterRef"
        )
        return Choice(None, Reason.CLUSTER_AMBIGUOUS, message)
    return Choice(admitting[0])


def admits_asker(cluster: BalancedCluster, asker: Asker) -> bool:
    """Whether the cluster admits the asker's namespace."""
    own = cluster.metadata.namespace or ""
    return admits(cluster.spec.allowed_namespaces, own, asker.namespace, asker.labels)


def admits(allowed: AllowedNamespaces, own: str, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether `allowed`, on an object in namespace `own`, admits `namespace` with these labels."""
    if namespace == own or allowed.from_ is NamespaceSource.ALL:
        return True
    if allowed.from_ is NamespaceSource.SAME or allowed.selector is None:
        return False
    return all(labels.get(key) == value for key, value in allowed.selector.match_labels.items())
