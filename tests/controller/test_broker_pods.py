from __future__ import annotations

from typing import Any, cast

import pytest

from evenkeel.controller.broker_pods import LOOK_SECONDS, BrokerPodsWatch
from evenkeel.controller.places import KIND, BrokerPodsFound
from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.kube.client import Kube
from evenkeel.kube.resources import PERSISTENT_VOLUME, POD, VOLUME_CLAIM, Resource
from evenkeel.reasons import Reason
from tests.support.world import World, cluster

BROKERS = {"namespace": "kafka", "matchLabels": {"app": "kafka", "role": "broker"}}


class Api:
    """One broker pod on a bound claim."""

    def __init__(self) -> None:
        self.node = "node-a"
        self.error: EvenkeelError | None = None
        self.asked: list[tuple[str, str]] = []

    async def list(self, resource: Resource, *, namespace: str, label_selector: str) -> list[dict[str, Any]]:
        assert (resource, namespace, label_selector) == (POD, "kafka", "app=kafka,role=broker")
        if self.error is not None:
            raise self.error
        mount = {"name": "data", "mountPath": "/data"}
        spec = {
            "nodeName": self.node,
            "containers": [{"volumeMounts": [mount]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}],
        }
        return [{"metadata": {"name": "kafka-0", "namespace": "kafka", "uid": "u-0"}, "spec": spec}]

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        self.asked.append((resource.kind, name))
        if resource == VOLUME_CLAIM:
            assert namespace == "kafka"
            return {"spec": {"volumeName": "pv-0"}}
        assert resource == PERSISTENT_VOLUME
        return {"metadata": {"name": name}, "spec": {"csi": {}}}


class Rig:
    def __init__(self, **spec: Any) -> None:
        self.api = Api()
        self.world = World()
        self.world.add(cluster(**spec))
        self.watch = BrokerPodsWatch(cast("Kube", self.api), self.world.context.views)
        self.now = 0.0

    async def look(self, seconds: float = 0.0) -> BrokerPodsFound | None:
        self.now += seconds
        await self.watch.look(self.now)
        item = self.world.store.get(KIND, "data", "kafka")
        return None if item is None else item["found"]

    @property
    def listed(self) -> bool:
        return self.world.store.is_listed([KIND])


async def test_nothing_is_asked_where_nothing_is_declared() -> None:
    rig = Rig()
    assert await rig.look() is None
    assert rig.listed


async def test_pods_are_found_with_their_volumes_and_the_cluster_is_planned_again() -> None:
    rig = Rig(brokers=BROKERS)
    rig.world.store.take_dirty()
    found = await rig.look()
    assert found is not None
    (pod,) = found.pods
    assert (pod.node, pod.containers[0][0].volume) == ("node-a", "pv-0")
    assert rig.listed
    assert [str(key) for key in rig.world.store.take_dirty()] == ["BalancedCluster/data/kafka"]


async def test_looks_again_after_a_while_and_asks_for_a_bound_volume_once() -> None:
    rig = Rig(brokers=BROKERS)
    await rig.look()
    rig.world.store.take_dirty()
    rig.api.node = "node-b"
    found = await rig.look(LOOK_SECONDS - 1)
    assert found is not None
    assert found.pods[0].node == "node-a"
    found = await rig.look(2)
    assert found is not None
    assert found.pods[0].node == "node-b"
    assert len(rig.api.asked) == 2
    rig.world.store.take_dirty()
    await rig.look(LOOK_SECONDS)
    assert not rig.world.store.take_dirty()


async def test_spec_that_changes_is_looked_at_at_once_and_one_that_goes_is_forgotten() -> None:
    rig = Rig()
    await rig.look()
    rig.world.change("BalancedCluster", "kafka", spec={"bootstrapServers": ["k:1"], "brokers": BROKERS})
    assert await rig.look() is not None
    rig.world.change("BalancedCluster", "kafka", spec={"bootstrapServers": ["k:1"]})
    assert await rig.look() is None


@pytest.mark.parametrize("outage", [True, False])
async def test_an_outage_is_waited_for_and_a_missing_right_is_said(*, outage: bool) -> None:
    rig = Rig(brokers=BROKERS)
    rig.api.error = (
        RetryableError("away") if outage else ConfigurationError("forbidden", reason=Reason.NOT_PERMITTED)
    )
    found = await rig.look()
    assert rig.listed is not outage
    assert found == (None if outage else BrokerPodsFound(problem="forbidden"))
