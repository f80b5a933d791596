from __future__ import annotations

from typing import Any

import pytest

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.controller.places import BrokerPod, BrokerPodsFound, Places, find_places, view_pod
from evenkeel.domain.exchange import BrokerPlace, Report, VolumeReport
from tests.support.world import cluster

HOSTS = {1: "kafka-0.brokers.data.svc.cluster.local", 2: "10.1.0.2", 3: "node-c"}


def pod(name: str, **parts: Any) -> dict[str, Any]:
    spec = {"nodeName": f"node-of-{name}", "containers": [{"name": "kafka"}], **parts.pop("spec", {})}
    meta = {"name": name, "namespace": "data", "uid": f"uid-{name}", "labels": parts.pop("labels", {})}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", **parts.pop("status", {})}}


def volume(name: str, **source: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": source}


def viewed(*items: dict[str, Any], **claims: dict[str, Any]) -> BrokerPodsFound:
    found = (view_pod(item, claims) for item in items)
    return BrokerPodsFound(tuple(one for one in found if one is not None))


def places(found: BrokerPodsFound, hosts: dict[int, str], *paths: str, **how: Any) -> Places:
    spec = {"matchLabels": {"app": "kafka"}, **how}
    item = BalancedCluster.model_validate(cluster(brokers=spec))
    volumes = tuple(VolumeReport(broker, path, 1, 1) for broker in hosts for path in paths)
    return find_places(item, found, Report("", hosts=hosts, volumes=volumes))


def nodes(found: Places) -> dict[int, str | None]:
    return {one.broker: one.node for one in found.known}


def test_nothing_is_told_where_nothing_is_declared() -> None:
    item = BalancedCluster.model_validate(cluster())
    assert find_places(item, viewed(pod("kafka-0")), Report("", hosts={0: "kafka-0"})) == Places()


def test_brokers_are_known_by_what_they_advertise() -> None:
    found = viewed(
        pod("kafka-0", spec={"hostname": "kafka-0", "subdomain": "brokers"}),
        pod("kafka-1", status={"podIPs": [{"ip": "10.1.0.2"}, {"ip": "fd00::2"}], "hostIP": "10.0.0.1"}),
        pod("kafka-2", spec={"hostNetwork": True, "nodeName": "node-c"}),
    )
    assert nodes(places(found, HOSTS)) == {1: "node-of-kafka-0", 2: "node-of-kafka-1", 3: "node-c"}


def test_the_node_of_a_node_port_is_not_taken_for_the_brokers() -> None:
    found = viewed(pod("kafka-0", status={"hostIP": "10.0.0.1"}))
    assert places(found, {1: "10.0.0.1"}) == Places(
        (), "no pod, or more than one, of spec.brokers is that of broker 1"
    )


@pytest.mark.parametrize(
    ("name", "labels", "how", "broker"),
    [
        ("kafka-2", {}, {"idFrom": "PodIndex"}, 2),
        ("cluster-broker-2", {}, {"idFrom": "PodIndex", "firstId": 100}, 102),
        ("kafka-x", {"apps.kubernetes.io/pod-index": "2"}, {"idFrom": "PodIndex"}, 2),
        ("kafka-x", {"broker": "7"}, {"idFrom": "Label", "idLabel": "broker"}, 7),
        ("kafka-x", {"broker": "seven"}, {"idFrom": "Label", "idLabel": "broker"}, None),
        ("kafka-x", {}, {"idFrom": "PodIndex"}, None),
    ],
)
def test_brokers_are_known_by_number_or_label(
    name: str, labels: dict[str, str], how: dict[str, Any], broker: int | None
) -> None:
    hosts = dict.fromkeys([2, 7, 102], "elsewhere")
    wanted = {} if broker is None else {broker: f"node-of-{name}"}
    assert nodes(places(viewed(pod(name, labels=labels)), hosts, **how)) == wanted


def test_one_pod_for_two_brokers_is_none() -> None:
    found = viewed(
        pod("a", spec={"hostNetwork": True, "nodeName": "node-a"}), pod("b", status=_ip("10.1.0.2"))
    )
    hosts = {0: "node-a", 1: "node-a", 2: "10.1.0.2"}
    assert nodes(places(found, hosts, "/data")) == {2: "node-of-b"}


def _ip(address: str) -> dict[str, Any]:
    return {"podIPs": [{"ip": address}]}


def test_two_pods_for_one_broker_are_none() -> None:
    found = viewed(pod("a-0"), pod("b-0"), pod("a-1"))
    assert nodes(places(found, {0: "x", 1: "y"}, idFrom="PodIndex")) == {1: "node-of-a-1"}


@pytest.mark.parametrize(
    "item",
    [pod("a-0", spec={"nodeName": ""}), pod("a-0", status={"phase": "Failed"})],
    ids=["waiting", "ended"],
)
def test_pods_that_run_nowhere_are_passed_over(item: dict[str, Any]) -> None:
    assert nodes(places(viewed(item), {0: "x"}, idFrom="PodIndex")) == {}


def broker(name: str, *mounts: tuple[str, dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """A pod whose container has one volume per mount."""
    container = {
        "name": "kafka",
        "volumeMounts": [
            {"name": f"v{number}", "mountPath": path} for number, (path, _) in enumerate(mounts)
        ],
    }
    volumes = [{"name": f"v{number}", **source} for number, (_, source) in enumerate(mounts)]
    return pod(name, spec={"containers": [container], "volumes": volumes, **spec})


def claim(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"csi": {"driver": "ebs", "volumeHandle": "v-1"}}, "pv-1"),
        ({"local": {"path": "/mnt/disk1/"}}, "node-of-k-0:/mnt/disk1"),
        ({"hostPath": {"path": "/mnt/disk1"}}, "hostPath:node-of-k-0:/mnt/disk1"),
        ({"nfs": {"server": "store", "path": "/kafka"}}, "store:/kafka"),
    ],
)
def test_volume_is_named_by_what_backs_it(source: dict[str, Any], wanted: str) -> None:
    found = viewed(broker("k-0", ("/data", claim("c"))), c=volume("pv-1", **source))
    assert places(found, {0: "x"}, "/data/logs", idFrom="PodIndex").known == (
        BrokerPlace(0, "node-of-k-0", {"/data/logs": wanted}),
    )


def test_the_deepest_mount_holds_a_log_dir_and_names_are_whole() -> None:
    item = broker("k-0", ("/data", claim("a")), ("/data/second", claim("b")), ("/dat", claim("c")))
    found = viewed(item, a=volume("pv-a"), b=volume("pv-b"), c=volume("pv-c"))
    (place,) = places(
        found, {0: "x"}, "/data/kafka", "/data/second/kafka", "/database", idFrom="PodIndex"
    ).known
    assert place.volumes == {"/data/kafka": "pv-a", "/data/second/kafka": "pv-b"}


def test_one_folder_of_a_node_may_hold_many_disks() -> None:
    host = {"hostPath": {"path": "/mnt"}}
    items = [broker(f"k-{number}", ("/mnt", host), nodeName="node") for number in (0, 1)]
    found = places(viewed(*items), {0: "x"}, "/mnt/disk1", "/mnt/disk2", idFrom="PodIndex")
    assert found.known == (BrokerPlace(0, "node", {}),)
    found = places(viewed(*items), {0: "x", 1: "y"}, "/mnt/disk", idFrom="PodIndex")
    assert [place.volumes for place in found.known] == [{}, {}]


def test_what_cannot_be_told_stays_unknown() -> None:
    item = broker("k-0", ("/data", {"emptyDir": {}}), ("/more", claim("unbound")))
    assert places(viewed(item), {0: "x"}, "/data/a", "/more/b", "/root", idFrom="PodIndex").known == (
        BrokerPlace(0, "node-of-k-0", {}),
    )


def test_claim_of_an_ephemeral_volume_is_named_after_the_pod() -> None:
    found = viewed(broker("k-0", ("/data", {"ephemeral": {}})), **{"k-0-v0": volume("pv-e")})
    (place,) = places(found, {0: "x"}, "/data", idFrom="PodIndex").known
    assert place.volumes == {"/data": "pv-e"}


def test_missing_right_is_said() -> None:
    found = BrokerPodsFound(problem="GET pods: forbidden")
    assert places(found, {0: "x"}).problem == "where brokers run is not known: GET pods: forbidden"


def test_a_pod_is_told_apart_from_one_whose_name_it_begins() -> None:
    found = viewed(BROKER_ONE, BROKER_ELEVEN)
    assert nodes(places(found, {11: "kafka-11.brokers.data.svc"})) == {11: "node-of-kafka-11"}


BROKER_ONE = pod("kafka-1", spec={"subdomain": "brokers"})
BROKER_ELEVEN = pod("kafka-11", spec={"subdomain": "brokers"})


def test_pods_compare_by_value() -> None:
    assert view_pod(pod("a-0"), {}) == BrokerPod("a-0", "data", "node-of-a-0", containers=((),))
