"""Looks at the pods of Kafka's brokers, where a BalancedCluster says how to find them.

Asked for every half minute instead of watched: brokers seldom move, and this needs no right to list or watch
volumes of everybody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from evenkeel.api.balanced_cluster import BalancedCluster, BrokerPods
from evenkeel.controller.places import KIND, BrokerPod, BrokerPodsFound, claim_name, view_pod
from evenkeel.controller.store import Object, Store
from evenkeel.controller.views import Views
from evenkeel.errors import ConfigurationError, EvenkeelError
from evenkeel.kube.client import Kube
from evenkeel.kube.resources import PERSISTENT_VOLUME, POD, VOLUME_CLAIM

LOOK_SECONDS = 30.0
CHECK_SECONDS = 2.0
"""How soon a spec that changed is looked at."""
BOUND_LIMIT = 4096
"""Volumes that are remembered."""
log = logging.getLogger(__name__)


class BrokerPodsWatch:
    """Puts what it finds into the store, under the name of the cluster."""

    def __init__(self, kube: Kube, views: Views) -> None:
        self._kube = kube
        self._views = views
        self._store: Store = views.store
        self._version = 0
        self._looked: dict[str, tuple[BrokerPods, float]] = {}
        """Cluster UID -> spec and time of the last look."""
        self._bound: dict[tuple[str, str], Object] = {}
        """(pod UID, claim) -> the volume; a claim that is bound stays so."""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            if self._store.is_listed([BalancedCluster.__name__]):
                await self.look(time.monotonic())
            await asyncio.sleep(CHECK_SECONDS)

    async def look(self, now: float) -> None:
        """Look at what is due; when all was looked at once, the kind is listed."""
        clusters = {one.metadata.uid: one for one in self._views.clusters() if one.spec.brokers is not None}
        for item in list(self._store.all(KIND)):
            if item["metadata"]["cluster"] not in clusters:
                self._put("DELETED", item)
        whole = True
        for uid, cluster in clusters.items():
            assert cluster.spec.brokers is not None
            spec, at = self._looked.get(uid, (None, 0.0))
            if spec != cluster.spec.brokers or now - at >= LOOK_SECONDS:
                whole = await self._look_at(cluster, cluster.spec.brokers, now) and whole
        self._looked = {uid: looked for uid, looked in self._looked.items() if uid in clusters}
        if whole:
            self._store.listed(KIND)

    async def _look_at(self, cluster: BalancedCluster, how: BrokerPods, now: float) -> bool:
        try:
            found = BrokerPodsFound(await self._find(how.namespace or cluster.metadata.namespace or "", how))
        except ConfigurationError as error:
            log.warning("broker pods not read cluster=%s why=%s", cluster.key, error)
            found = BrokerPodsFound(problem=error.message)
        except EvenkeelError as error:
            log.info("broker pods not looked at cluster=%s why=%s", cluster.key, error)
            return False
        self._looked[cluster.metadata.uid] = (how, now)
        meta = cluster.metadata
        present = self._store.get(KIND, meta.namespace or "", meta.name)
        if present is None or present["found"] != found or present["metadata"]["cluster"] != meta.uid:
            name = {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": f"{meta.uid}/pods",
                "cluster": meta.uid,
            }
            self._put("MODIFIED", {"kind": KIND, "metadata": name, "found": found})
        return True

    async def _find(self, namespace: str, how: BrokerPods) -> tuple[BrokerPod, ...]:
        selector = ",".join(f"{key}={value}" for key, value in sorted(how.match_labels.items()))
        items = await self._kube.list(POD, namespace=namespace, label_selector=selector)
        pods = [view_pod(item, await self._volumes(item)) for item in items]
        if len(self._bound) > BOUND_LIMIT:
            self._bound.clear()
        return tuple(sorted((pod for pod in pods if pod is not None), key=lambda pod: pod.name))

    async def _volumes(self, item: Object) -> dict[str, Object]:
        """Claim -> the volume bound to it, for the claims of a pod."""
        meta = item["metadata"]
        found: dict[str, Object] = {}
        for volume in item["spec"].get("volumes") or ():
            claim = claim_name(volume, meta["name"])
            if claim is None:
                continue
            key = (meta["uid"], claim)
            bound = self._bound.get(key) or await self._bound_to(meta["namespace"], claim)
            if bound is not None:
                self._bound[key] = found[claim] = bound
        return found

    async def _bound_to(self, namespace: str, claim: str) -> Object | None:
        asked = await self._kube.get(VOLUME_CLAIM, claim, namespace)
        name = ((asked or {}).get("spec") or {}).get("volumeName")
        return await self._kube.get(PERSISTENT_VOLUME, name) if name else None

    def _put(self, change: str, item: Mapping[str, Any]) -> None:
        self._version += 1
        meta = {**item["metadata"], "resourceVersion": str(self._version)}
        self._store.put(change, {**item, "metadata": meta})
