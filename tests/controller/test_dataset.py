from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.controller.store import Key
from evenkeel.domain import codec
from evenkeel.domain.exchange import DatasetReport, Fault
from evenkeel.domain.job import JobSpec, Role
from evenkeel.reasons import Reason
from tests.support.world import (
    SEAL,
    World,
    cluster,
    dataset,
    namespace_object,
    ready_world,
    report_all,
    secured_cluster,
    settle,
    topic,
)

GOLDEN = Path(__file__).parents[1] / "data" / "controller"
UID = "uid-digits"


def job_spec(world: World, name: str) -> JobSpec:
    item = world.get("Job", name)
    assert item is not None, sorted(one["metadata"]["name"] for one in world.store.all("Job"))
    (container,) = item["spec"]["template"]["spec"]["containers"]
    return codec.loads(JobSpec, container["env"][0]["value"])


def end_job(world: World, name: str, kind: str) -> None:
    when = world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"type": kind, "status": "True", "lastTransitionTime": when}
    world.change("Job", name, status={"conditions": [ended]})


def add_pod(world: World, job: str, **status: Any) -> None:
    item = world.get("Job", job)
    assert item is not None
    labels = {names.LABEL_DATASET_UID: UID, "batch.kubernetes.io/job-completion-index": "0"}
    owner = {"uid": item["metadata"]["uid"], "controller": True}
    meta = {"name": f"{job}-0-x", "namespace": "data", "labels": labels, "ownerReferences": [owner]}
    world.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})


def failed_with(reason: str, message: str) -> dict[str, Any]:
    said = codec.dumps({"reason": reason, "message": message})
    return {
        "phase": "Failed",
        "containerStatuses": [{"state": {"terminated": {"exitCode": 1, "message": said}}}],
    }


def test_status_as_people_see_it() -> None:
    world = ready_world(dataset(), planned_records=100, planned_slices=4, planned_bytes=5000,
                        acknowledged_records=40, acknowledged_bytes=2000, finished_slices=1, rejected_records=1)  # fmt: skip
    found = (world.get("TrainingDataset", "digits") or {})["status"]
    assert found == yaml.safe_load((GOLDEN / "dataset-status.yaml").read_text())


def test_producers_start_when_the_topics_are_ready() -> None:
    world = ready_world(dataset(ingest={"parallelism": 3}), topics_ready=False)
    assert world.condition("TrainingDataset", "digits") == ("False", "CreatingTopics")
    assert world.get("Job", "digits-producer-0") is None
    report_all(world)
    settle(world)
    job = world.get("Job", "digits-producer-0") or {}
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (3, 3)
    spec = job_spec(world, "digits-producer-0")
    assert spec.role is Role.PRODUCER
    assert spec.producer is not None
    assert spec.producer.source_path.endswith("/source/train")
    assert spec.dataset.data_topic == names.dataset_topic(UID, "data")
    assert spec.producer.seed == (world.get("TrainingDataset", "digits") or {})["status"]["seed"]


def test_jobs_run_without_rights_and_read_only() -> None:
    world = ready_world(dataset())
    pod = (world.get("Job", "digits-producer-0") or {})["spec"]["template"]["spec"]
    account = world.get("ServiceAccount", pod["serviceAccountName"]) or {}
    assert account["automountServiceAccountToken"] is pod["automountServiceAccountToken"] is False
    source = next(one for one in pod["volumes"] if one["name"] == "source")
    assert source["persistentVolumeClaim"] == {"claimName": "pictures", "readOnly": True}


def test_seed_does_not_depend_on_the_status() -> None:
    world = ready_world(dataset())
    first = (world.get("TrainingDataset", "digits") or {})["status"]["seed"]
    world.change("TrainingDataset", "digits", status={})
    settle(world)
    assert (world.get("TrainingDataset", "digits") or {})["status"]["seed"] == first


def test_sealer_follows_the_last_slice() -> None:
    world = ready_world(dataset(), planned_records=9, planned_slices=2, finished_slices=1)
    assert world.get("Job", "digits-sealer-0") is None
    report_all(world, planned_records=9, planned_slices=2, finished_slices=2)
    settle(world)
    assert job_spec(world, "digits-sealer-0").role is Role.SEALER
    assert world.condition("TrainingDataset", "digits") == ("False", "Sealing")


def test_sealer_follows_producers_that_ended_well() -> None:
    world = ready_world(dataset(), planned_records=9, planned_slices=2)
    end_job(world, "digits-producer-0", "Complete")
    settle(world)
    assert world.get("Job", "digits-sealer-0") is not None


def test_reopened_slices_begin_a_round() -> None:
    world = ready_world(
        dataset(), planned_records=9, planned_slices=2, finished_slices=1, round=2, reopened_at=5
    )
    assert job_spec(world, "digits-producer-2").round == 2


def test_too_many_rounds_are_a_failure() -> None:
    world = ready_world(dataset(), planned_records=9, planned_slices=2, finished_slices=1, round=4)
    assert world.condition("TrainingDataset", "digits") == ("False", "SealFailed")
    assert world.condition("TrainingDataset", "digits", "Stalled")[0] == "True"


def test_seal_is_the_truth_and_stays() -> None:
    world = ready_world(dataset(), planned_slices=1, finished_slices=1, seal=SEAL)
    assert world.condition("TrainingDataset", "digits") == ("True", "Sealed")
    assert world.condition("TrainingDataset", "digits", "Ingested") == ("True", "Sealed")
    settle(world)
    assert world.desired().datasets[0].follow is False
    world.report(faults=(Fault(Reason.BROKERS_UNREACHABLE, "away"),))
    settle(world)
    assert world.condition("TrainingDataset", "digits") == ("True", "Sealed")
    assert [
        one for one in world.plan("TrainingDataset", "digits").children if one.resource.kind == "Job"
    ] == []


def test_lost_data_turns_ready_false() -> None:
    world = ready_world(dataset(), planned_slices=1, finished_slices=1, seal=SEAL)
    world.report(
        faults=(Fault(Reason.DATA_LOST, "the log starts later than the revision", f"dataset/{UID}"),)
    )
    settle(world)
    assert world.condition("TrainingDataset", "digits") == ("False", "DataLost")


@pytest.mark.parametrize("reason", ["SourceMissing", "SourceEmpty", "BadRecord"])
def test_job_that_failed_says_why_and_is_tried_again(reason: str) -> None:
    world = ready_world(dataset())
    add_pod(world, "digits-producer-0", **failed_with(reason, "the sentence"))
    end_job(world, "digits-producer-0", "Failed")
    plan = world.run("TrainingDataset", "digits")
    assert world.condition("TrainingDataset", "digits") == ("False", reason)
    assert world.condition("TrainingDataset", "digits", "Ingested") == ("False", reason)
    assert world.message("TrainingDataset", "digits") == "the sentence"
    assert plan.again_seconds == 5
    world.pass_time(5)
    world.run("TrainingDataset", "digits")
    assert world.get("Job", "digits-producer-0-1") is not None


def test_reason_stays_until_the_next_attempt_has_proved_itself() -> None:
    world = ready_world(dataset())
    add_pod(world, "digits-producer-0", **failed_with("SourceEmpty", "no image"))
    end_job(world, "digits-producer-0", "Failed")
    world.pass_time(5)
    world.run("TrainingDataset", "digits")
    plan = world.run("TrainingDataset", "digits")
    assert world.condition("TrainingDataset", "digits") == ("False", "SourceEmpty")
    assert plan.again_seconds == 30
    world.pass_time(31)
    world.run("TrainingDataset", "digits")
    assert world.condition("TrainingDataset", "digits") == ("False", "Ingesting")


def test_only_the_last_failure_is_kept() -> None:
    world = ready_world(dataset())
    for name in ("digits-producer-0", "digits-producer-0-1"):
        end_job(world, name, "Failed")
        world.pass_time(60)
        world.run("TrainingDataset", "digits")
    jobs = sorted(one["metadata"]["name"] for one in world.store.all("Job"))
    assert jobs == ["digits-producer-0-1", "digits-producer-0-2"]


def test_sealer_that_gave_up_is_not_tried_again() -> None:
    world = ready_world(dataset(), planned_slices=1, finished_slices=1)
    add_pod(world, "digits-sealer-0", **failed_with("SealFailed", "slices [1] are not whole"))
    end_job(world, "digits-sealer-0", "Failed")
    world.pass_time(600)
    world.run("TrainingDataset", "digits")
    assert world.get("Job", "digits-sealer-0-1") is None
    assert world.condition("TrainingDataset", "digits") == ("False", "SealFailed")


def test_one_failed_worker_does_not_hide_those_that_work() -> None:
    world = ready_world(dataset(), planned_records=9, planned_slices=3)
    add_pod(world, "digits-producer-0", phase="Running")
    world.run("TrainingDataset", "digits")
    assert world.condition("TrainingDataset", "digits") == ("False", "Ingesting")


def test_missing_reference_and_credentials_are_said_first() -> None:
    world = World()
    world.add(namespace_object("data"))
    world.add(dataset())
    world.run("TrainingDataset", "digits")
    assert world.condition("TrainingDataset", "digits") == ("False", "NoClusterPermitted")
    world.add(secured_cluster())
    world.run("TrainingDataset", "digits")
    assert world.condition("TrainingDataset", "digits") == ("False", "SecretMissing")
    assert "credentialsRef" in world.message("TrainingDataset", "digits")


def test_credentials_are_mounted_for_the_jobs() -> None:
    world = World()
    world.add(namespace_object("data"))
    world.add(secured_cluster())
    world.add(dataset(credentialsRef={"secretName": "kafka-user"}))
    settle(world)
    settle(world)
    report_all(world)
    settle(world)
    pod = (world.get("Job", "digits-producer-0") or {})["spec"]["template"]["spec"]
    secret = next(one["secret"] for one in pod["volumes"] if "secret" in one)
    assert secret == {"secretName": "kafka-user", "optional": True}
    assert (
        job_spec(world, "digits-producer-0").connection.credentials_path
        == f"{names.CREDENTIALS_PATH}/dataset"
    )


def test_fault_before_the_topics_are_ready_is_said() -> None:
    world = ready_world(dataset(storage={"replicationFactor": 9}), topics_ready=False)
    fault = Fault(Reason.REPLICATION_ABOVE_BROKERS, "needs 9 brokers, 3 are online", f"dataset/{UID}")
    world.report(faults=(fault,))
    settle(world)
    assert world.condition("TrainingDataset", "digits") == ("False", "ReplicationAboveBrokers")


def test_topic_ref_makes_that_topic_the_data_topic() -> None:
    world = ready_world(topic("events", "events"), dataset(topicRef={"name": "events"}))
    assert world.desired().datasets[0].data_topic == "events"
    assert job_spec(world, "digits-producer-0").dataset.data_topic == "events"


def test_topic_ref_has_one_user() -> None:
    other = dataset("other", topicRef={"name": "events"})
    other["metadata"]["creationTimestamp"] = "2026-01-01T00:00:09Z"
    world = ready_world(topic("events", "events"), dataset(topicRef={"name": "events"}), other)
    assert world.condition("TrainingDataset", "other") == ("False", "Conflict")
    assert world.condition("TrainingDataset", "digits") == ("False", "Ingesting")


def test_paused_dataset_starts_nothing() -> None:
    world = ready_world(dataset(state="Paused"))
    assert world.condition("TrainingDataset", "digits") == ("False", "Paused")
    assert list(world.store.all("Job")) == []


def test_dataset_on_its_way_out_is_left_alone() -> None:
    world = ready_world(dataset())
    world.change("TrainingDataset", "digits", metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"})
    assert world.plan("TrainingDataset", "digits").children == ()
    settle(world)
    assert world.desired().datasets == ()


def test_jobs_go_first_when_their_namespace_ends() -> None:
    # Kubernetes waits for their pods before it deletes anything else, and the pods wait for the Job.
    world = ready_world(dataset())
    (job,) = world.store.all("Job")
    world.store.take_dirty()
    world.add(ending_namespace())
    assert Key("TrainingDataset", "data", "digits") in world.store.take_dirty()
    plan = world.plan("TrainingDataset", "digits")
    assert [one.name for one in plan.removals] == [job["metadata"]["name"]]
    assert (plan.children, plan.status) == ((), None)


def ending_namespace() -> dict[str, Any]:
    namespace = namespace_object("data")
    namespace["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    return namespace


def test_long_names_give_valid_job_names() -> None:
    name = "d" * 50
    world = ready_world(dataset(name))
    (job,) = world.store.all("Job")
    assert len(job["metadata"]["name"]) <= 57


def test_other_namespace_needs_permission() -> None:
    world = World()
    world.add(namespace_object("team"))
    world.add(cluster(allowedNamespaces={"from": "All"}))
    world.add(dataset(namespace="team"))
    world.run("TrainingDataset", "digits", "team")
    status = (world.get("TrainingDataset", "digits", "team") or {})["status"]
    assert status["clusterRef"] == {"name": "kafka", "namespace": "data"}


def test_seal_of_a_resource_without_status_is_found_again() -> None:
    world = ready_world(dataset(), planned_slices=1, finished_slices=1, seal=replace(SEAL, records=7))
    world.change("TrainingDataset", "digits", status={})
    settle(world)
    assert (world.get("TrainingDataset", "digits") or {})["status"]["revision"]["records"] == 7


def test_what_was_ingested_stays_said_when_a_new_keeper_reads_no_sealed_journal() -> None:
    world = ready_world(dataset(), planned_records=100, acknowledged_records=100, seal=SEAL)
    before = (world.get("TrainingDataset", "digits") or {})["status"]
    assert before["ingest"]["percent"] == 100
    world.report(datasets=(DatasetReport(UID, topics_ready=True),))
    world.run("TrainingDataset", "digits")
    assert (world.get("TrainingDataset", "digits") or {})["status"]["ingest"] == before["ingest"]


def test_what_threatens_a_sealed_dataset_is_said() -> None:
    world = ready_world(dataset(), planned_slices=1, finished_slices=1, seal=SEAL)
    faults = (
        Fault(Reason.RETENTION_UNSAFE, "retention.ms=5 (needs -1)", "dataset/uid-digits"),
        Fault(Reason.SINGLE_COPY, "one copy", "dataset/somebody"),
    )
    world.report(datasets=(DatasetReport("uid-digits", topics_ready=True, seal=SEAL),), faults=faults)
    world.run("TrainingDataset", "digits")
    assert world.condition("TrainingDataset", "digits") == ("True", "Sealed")
    message = world.message("TrainingDataset", "digits")
    assert "needs -1" in message
    assert "one copy" not in message
