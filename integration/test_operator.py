from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from evenkeel import names
from evenkeel.controller.act import PROGRESS_SECONDS
from evenkeel.domain.exchange import Fault, SealReport
from evenkeel.reasons import Reason
from integration.apiserver.server import ApiServer, await_right, install_kinds
from integration.operator_process import Api, KeeperDouble, OperatorProcess, StartOperator, cluster, topic
from integration.processes import wait_until
from scripts.provision import cache

pytestmark = pytest.mark.timeout(240)
GROUP = names.GROUP_VERSION
DIGEST = "ab" * 32


def dataset(name: str = "digits", **spec: Any) -> dict[str, Any]:
    source = {"type": "Volume", "format": "ImageFolder", "volume": {"claimName": "pictures"}}
    body = {"source": source, "ingest": {"parallelism": 2}, **spec}
    return {"apiVersion": GROUP, "kind": "TrainingDataset", "metadata": {"name": name}, "spec": body}


def seal(**more: Any) -> SealReport:
    return SealReport(DIGEST, records=100, shards=1, data_bytes=1000, rejected=0, journal_offset=9, **more)


def test_cluster_becomes_ready_by_its_report(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    api.await_condition("bcl", "kafka", ("False", "Starting"))
    keeper.say()
    api.kubectl("wait", "--for=condition=Ready", "bcl/kafka", "-n", api.namespace, "--timeout=60s")
    status = (api.get("bcl", "kafka") or {})["status"]
    assert status["brokers"] == 3
    assert status["maxFillPermille"] == 500
    assert status["claimOwner"] == f"{api.namespace}/kafka"
    keeper.say(faults=(Fault(Reason.AUTHENTICATION_FAILED, "the password of observe is wrong"),))
    api.await_condition("bcl", "kafka", ("False", "AuthenticationFailed"))
    assert api.condition("bcl", "kafka", "Stalled")[0] == "True"
    keeper.say(faults=())
    api.await_condition("bcl", "kafka", ("True", "Measured"))
    assert api.condition("bcl", "kafka", "Stalled") == ("", "")


def test_keeper_has_just_its_two_config_maps(
    api: Api, start_operator: StartOperator, apiserver: ApiServer
) -> None:
    start_operator()
    api.apply(cluster())
    account = names.keeper_name("kafka")
    api.await_object("rolebinding", account)
    user = f"system:serviceaccount:{api.namespace}:{account}"
    await_right(api.kubectl, user, "patch", f"configmap/{names.report_name('kafka')}", "-n", api.namespace)
    can = ["auth", "can-i", "-n", api.namespace, "--as", user]
    for words in (["list", "configmaps"], ["get", "secrets"], ["get", "configmap/other"]):
        with pytest.raises(RuntimeError, match=r".*"):
            api.kubectl(*can, *words)


def test_topic_and_dataset_go_all_the_way(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster(), topic("events", "events", partitions=6), dataset())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    told = keeper.await_desired("topic and dataset", lambda one: bool(one.topics and one.datasets))
    assert told.topics[0].partitions == 6
    keeper.say()
    api.await_condition("btp", "events", ("False", "TopicCreating"))
    api.await_condition("tds", "digits", ("False", "CreatingTopics"))
    keeper.say_all_well()
    api.await_condition("btp", "events", ("True", "Ready"))
    api.await_condition("tds", "digits", ("False", "Ingesting"))
    job = api.await_object("job", "digits-producer-0")
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    keeper.say_all_well(planned_records=100, planned_slices=4, acknowledged_records=40, finished_slices=1)
    wait_until("percent", lambda: _percent(api) == 40, every=0.2)
    keeper.say_all_well(planned_records=100, planned_slices=4, acknowledged_records=100, finished_slices=4)
    api.await_object("job", "digits-sealer-0")
    api.await_condition("tds", "digits", ("False", "Sealing"))
    keeper.say_all_well(planned_records=100, planned_slices=4, finished_slices=4, seal=seal())
    api.kubectl("wait", "--for=condition=Ready", "tds/digits", "-n", api.namespace, "--timeout=60s")
    status = (api.get("tds", "digits") or {})["status"]
    assert status["revision"]["digest"] == DIGEST
    keeper.await_desired("journal is let go", lambda one: not one.datasets[0].follow)


def _percent(api: Api) -> int | None:
    ingest = ((api.get("tds", "digits") or {}).get("status") or {}).get("ingest") or {}
    value: int | None = ingest.get("percent")
    return value


def test_reopened_slices_get_another_round(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster(), dataset())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("dataset", lambda one: bool(one.datasets))
    keeper.say_all_well(planned_records=10, planned_slices=2, finished_slices=2)
    api.await_object("job", "digits-sealer-0")
    keeper.say_all_well(planned_records=10, planned_slices=2, finished_slices=1, round=1, reopened_at=7)
    job = api.await_object("job", "digits-producer-1")
    spec = json.loads(job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
    assert spec["round"] == 1
    keeper.say_all_well(planned_records=10, planned_slices=2, finished_slices=1, round=4, reopened_at=9)
    api.await_condition("tds", "digits", ("False", "SealFailed"))


def test_missing_volume_claim_is_said_and_heals(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster(), dataset())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("dataset", lambda one: bool(one.datasets))
    keeper.say_all_well()
    pod = _await_pod(api, "job-name=digits-producer-0")
    message = '0/4 nodes are available: persistentvolumeclaim "pictures" not found.'
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    api.patch_status("pod", pod, {"conditions": [unschedulable]})
    api.await_condition("tds", "digits", ("False", "SourceMissing"))
    api.patch_status("pod", pod, {"phase": "Running", "conditions": []})
    api.await_condition("tds", "digits", ("False", "Ingesting"))


def test_failed_job_gives_its_reason_and_is_tried_again(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster(), dataset(ingest={"parallelism": 1}))
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("dataset", lambda one: bool(one.datasets))
    keeper.say_all_well()
    pod = _await_pod(api, "job-name=digits-producer-0")
    said = json.dumps({"reason": "SourceEmpty", "message": "/source holds no image"})
    ended = {"exitCode": 1, "reason": "Error", "message": said}
    status = {"name": "producer", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    api.patch_status(
        "pod", pod, {"phase": "Failed", "containerStatuses": [{**status, "state": {"terminated": ended}}]}
    )
    api.await_condition("tds", "digits", ("False", "SourceEmpty"))
    api.await_object("job", "digits-producer-0-1")


def _await_pod(api: Api, selector: str) -> str:
    found = wait_until(f"pod {selector}", lambda: api.list("pod", selector), every=0.2)
    return str(found[0]["metadata"]["name"])


def test_preload_makes_nodes_warm_and_releases_pods(api: Api, start_operator: StartOperator) -> None:
    node = f"gpu-{api.namespace}"
    labels = {names.GPU_LABEL: "true", "test": api.namespace}
    api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}})
    start_operator()
    preload = {"mode": "Required", "nodeSelector": {"test": api.namespace}}
    api.apply(cluster(), dataset(preload=preload), _gated_pod())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("dataset", lambda one: bool(one.datasets))
    keeper.say_all_well(planned_slices=1, finished_slices=1, seal=seal())
    api.await_condition("tds", "digits", ("True", "Sealed"))
    wait_until("wanted", lambda: (api.get("ncache", node) or {"spec": {}})["spec"].get("wanted"), every=0.2)
    wait_until(
        "the node's label", lambda: _labels(api, node).get(names.LABEL_CACHE_NODE) == "true", every=0.2
    )
    api.await_condition("tds", "digits", ("False", "CacheUnavailable"), "Preloaded")
    generation = {"observedGeneration": 1, "endpoint": "http://10.0.0.9:7443", "diskTotalBytes": 10_000}
    api.patch_status("ncache", node, generation)
    loader = wait_until("loader", lambda: api.list("job", "app.kubernetes.io/component=loader"), every=0.2)
    spec = json.loads(loader[0]["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
    assert spec["loader"]["endpoint"] == "http://10.0.0.9:7443"
    uid = (api.get("tds", "digits") or {})["metadata"]["uid"]
    warm = {"datasetUID": uid, "digest": DIGEST, "state": "Warm", "verifiedShards": 1, "totalShards": 1}
    api.patch_status("ncache", node, {**generation, "revisions": [warm]})
    api.await_condition("tds", "digits", ("True", "Warm"), "Preloaded")
    wait_until("release", lambda: names.GATE_WARM not in json.dumps(api.get("pod", "rank")), every=0.2)
    pod = api.get("pod", "rank") or {}
    assert pod["spec"]["schedulingGates"] == [{"name": "example.com/other"}]
    assert names.warm_label(uid) in json.dumps(pod["spec"]["affinity"])
    assert _labels(api, node)[names.warm_label(uid)] == "true"
    told = ("get", "events", "-n", api.namespace, "--field-selector=involvedObject.name=rank")
    # It is written after the pod that it tells of.
    wait_until("the event of the release", lambda: "Warm" in api.kubectl(*told), every=0.2)
    api.delete("pod", "rank")
    wait_until("the warm label to go", lambda: names.warm_label(uid) not in _labels(api, node), every=0.2)
    api.kubectl("delete", "node", node)
    api.await_absent("ncache", node)


def _labels(api: Api, node: str) -> dict[str, str]:
    return dict((api.get("node", node) or {})["metadata"]["labels"])


def _gated_pod() -> dict[str, Any]:
    csi = {"driver": names.CSI_DRIVER, "readOnly": True, "volumeAttributes": {"dataset": "digits"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rank", "labels": {names.LABEL_DATASET: "digits"}},
        "spec": {
            "schedulingGates": [{"name": names.GATE_WARM}, {"name": "example.com/other"}],
            "containers": [{"name": "train", "image": "train:test"}],
            "volumes": [{"name": "data", "csi": csi}],
        },
    }


@pytest.mark.parametrize(
    ("bodies", "kind", "name", "reason"),
    [
        ([topic("events", "events")], "btp", "events", "NoClusterPermitted"),
        ([topic("events", "events", clusterRef={"name": "absent"})], "btp", "events", "ClusterNotFound"),
        ([cluster("a"), cluster("b"), dataset()], "tds", "digits", "ClusterAmbiguous"),
        ([cluster(), dataset(topicRef={"name": "absent"})], "tds", "digits", "TopicMissing"),
    ],
)
def test_bad_references_are_said(
    api: Api, start_operator: StartOperator, bodies: list[dict[str, Any]], kind: str, name: str, reason: str
) -> None:
    start_operator()
    api.apply(*bodies)
    api.await_condition(kind, name, ("False", reason))
    assert api.condition(kind, name, "Stalled")[0] == "True"


def test_deleted_topic_waits_for_kafka(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster(), topic("events", "events", deletionPolicy="Delete"))
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("topic", lambda one: bool(one.topics))
    keeper.say_all_well()
    api.await_condition("btp", "events", ("True", "Ready"))
    api.delete("btp", "events")
    told = keeper.await_desired("deletion", lambda one: bool(one.deletions))
    assert told.deletions[0].topic == "events"
    assert api.get("btp", "events") is not None
    keeper.say(topics=(_gone("events"),))
    api.await_absent("btp", "events")
    keeper.await_desired("an end of it", lambda one: not one.deletions)


def _gone(name: str) -> Any:
    from evenkeel.domain.exchange import TopicReport

    return TopicReport(name, exists=False)


def test_deletion_leaves_no_orphan(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster(), topic("events", "events", deletionPolicy="Delete"), dataset())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("all", lambda one: bool(one.topics and one.datasets))
    keeper.say_all_well()
    _await_pod(api, "job-name=digits-producer-0")
    for kind, name in (("tds", "digits"), ("bcl", "kafka"), ("btp", "events")):
        api.delete(kind, name)
    kinds = "configmap,deployment,job,pod,role,rolebinding,serviceaccount,btp,bcl,tds"
    selector = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
    wait_until("no orphan", lambda: not _ours(api, kinds, selector), seconds=120, every=0.5)


def _ours(api: Api, kinds: str, selector: str) -> list[dict[str, Any]]:
    found = [one for one in api.list(kinds, selector) if one["metadata"]["name"] != "evenkeel-operator"]
    return [one for one in found if one["metadata"].get("ownerReferences")] + api.list("btp,bcl,tds")


def test_same_name_again_gets_objects_of_its_own(api: Api, start_operator: StartOperator) -> None:
    start_operator()
    api.apply(cluster())
    api.await_object("deployment", names.keeper_name("kafka"))
    api.delete("bcl", "kafka")
    api.await_absent("bcl", "kafka")
    api.apply(cluster())
    uid = (api.get("bcl", "kafka") or {})["metadata"]["uid"]

    def owned() -> bool:
        found = api.get("deployment", names.keeper_name("kafka"))
        return found is not None and found["metadata"]["ownerReferences"][0]["uid"] == uid

    wait_until("the new keeper", owned, seconds=60, every=0.2)


class Silence:
    """Of an operator: nothing was written for longer than progress is held back."""

    def __init__(self, operator: OperatorProcess) -> None:
        self._operator = operator
        self._writes, self._since = -1.0, 0.0

    def lasts(self) -> bool:
        """Whether it does by now; to be asked all the time."""
        found = self._operator.writes()
        if found != self._writes:
            self._writes, self._since = found, time.monotonic()
        return time.monotonic() - self._since > PROGRESS_SECONDS + 3


def test_idle_writes_nothing(api: Api, start_operator: StartOperator) -> None:
    operator = start_operator()
    api.apply(cluster(), topic("events", "events", partitions=3), dataset())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("all", lambda one: bool(one.topics and one.datasets))
    keeper.say_all_well(planned_records=1, planned_slices=1, finished_slices=1, seal=seal())
    api.await_condition("tds", "digits", ("True", "Sealed"))
    keeper.await_desired("journal is let go", lambda one: not one.datasets[0].follow)
    keeper.say_all_well(seal=seal())
    api.await_condition("btp", "events", ("True", "Ready"))
    wait_until("the last of what was held back", Silence(operator).lasts, seconds=90, every=0.5)
    before = operator.writes()
    time.sleep(20)
    assert operator.writes() == before
    assert operator.probe("/healthz") == operator.probe("/readyz") == 200


def test_killed_operator_goes_on_where_it_was(api: Api, start_operator: StartOperator) -> None:
    first = start_operator()
    api.apply(cluster(), dataset())
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.await_desired("dataset", lambda one: bool(one.datasets))
    keeper.say_all_well()
    job = api.await_object("job", "digits-producer-0")
    first.process.kill()
    keeper.say_all_well(planned_records=1, planned_slices=1, finished_slices=1)
    start_operator()
    api.await_object("job", "digits-sealer-0")
    again = api.get("job", "digits-producer-0") or {}
    assert again["metadata"]["uid"] == job["metadata"]["uid"]


def test_second_operator_waits_and_takes_over(api: Api, start_operator: StartOperator) -> None:
    first = start_operator()
    wait_until("the first to lead", first.is_leader, every=0.2)
    second = start_operator()
    wait_until("the second to be ready", lambda: second.probe("/readyz") == 200, every=0.2)
    api.apply(cluster())
    api.await_object("deployment", names.keeper_name("kafka"))
    wait_until("the second not to lead", lambda: second.is_leader() is False)
    assert second.writes() == 0
    first.process.stop()
    assert first.process.running is False
    # Sooner than the 15 s after which a lease that was not given back would be taken.
    wait_until("the second to lead", second.is_leader, seconds=10, every=0.2)
    api.apply(cluster("other"))
    api.await_object("deployment", names.keeper_name("other"))


def test_paused_leader_writes_nothing_after_another_leads(api: Api, start_operator: StartOperator) -> None:
    first = start_operator()
    wait_until("the first to lead", first.is_leader, every=0.2)
    second = start_operator()
    second.port()
    first.process.freeze()
    wait_until("the second to lead", second.is_leader, every=0.5)
    before = second.writes()
    api.apply(cluster())
    api.await_object("deployment", names.keeper_name("kafka"))
    first.process.thaw()
    wait_until("the first to step down", lambda: first.is_leader() is False, every=0.1)
    assert second.writes() > before
    wait_until("the second to lead still", second.is_leader)


def test_stops_within_seconds_and_gives_the_lease_back(api: Api, start_operator: StartOperator) -> None:
    operator = start_operator()
    wait_until("it to lead", operator.is_leader, every=0.2)
    began = time.monotonic()
    operator.process.stop(10)
    assert time.monotonic() - began < 5
    lease = api.get("lease", names.LEASE_NAME) or {}
    assert not lease["spec"].get("holderIdentity")


def test_outage_and_absent_kinds(own_apiserver: ApiServer, tmp_path: Path) -> None:
    """CRDs come after the operator; the API server dies with objects deleted meanwhile, and comes back."""
    kubectl = own_apiserver.kubectl()
    kubectl("create", "namespace", "evenkeel-system")
    api = Api(kubectl, "default")
    operator = OperatorProcess(own_apiserver.kubeconfig(), "evenkeel-system", tmp_path / "operator.log")
    try:
        assert wait_until("an answer", lambda: operator.probe("/readyz"), every=0.2) == 503
        folder = str(cache.REPOSITORY / "crds")
        install_kinds(kubectl, folder)
        wait_until("readiness", lambda: operator.probe("/readyz") == 200, every=0.2)
        api.apply(cluster(), topic("events", "events"))
        api.await_condition("btp", "events", ("False", "ClusterNotReady"))
        own_apiserver.stop_server()
        wait_until("the lease to run out", lambda: operator.is_leader() is False, every=0.2)
        assert wait_until("an answer", lambda: operator.probe("/healthz"), every=0.2) == 200
        own_apiserver.start_server()
        api.delete("btp", "events")
        api.apply(topic("later", "later"))
        api.await_condition("btp", "later", ("False", "ClusterNotReady"))
        keeper = KeeperDouble(api, "kafka")
        keeper.await_desired("the ghost to go", lambda one: [each.name for each in one.topics] == ["later"])
        operator.process._child.send_signal(signal.SIGTERM)
        wait_until("its end", lambda: not operator.process.running)
    finally:
        operator.process.stop()
        print(operator.process.output()[-20000:])  # noqa: T201 - shown when the test fails
