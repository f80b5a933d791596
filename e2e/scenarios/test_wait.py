"""kubectl as it comes: wait, explain, and the columns of get."""

from __future__ import annotations

import pytest

from e2e.scenarios.user import CACHE, CLUSTER, DATASET, DEMO_CLUSTER, TOPIC, User

EXPLAINED = {
    "balancedcluster.spec.balance": "maxFillPercent",
    "balancedtopic.spec": "replicationFactor",
    "trainingdataset.spec.ingest": "onBadRecord",
    "nodecache.status": "diskUsableBytes",
}


@pytest.mark.parametrize(
    ("kind", "name"), [("bcl", DEMO_CLUSTER), ("btp", "events"), ("ncache", ""), ("tds", "")]
)
def test_ready_can_be_waited_for(administrator: User, vision: User, kind: str, name: str) -> None:
    user = vision if kind == "tds" else administrator
    said = user.kubectl("wait", "--for=condition=Ready", kind, name or "--all", "--timeout=60s")
    assert said.count("condition met") == (1 if name else 2)


def test_preloaded_can_be_waited_for(vision: User) -> None:
    vision.wait_for("Preloaded", DATASET, "digits", 60)
    vision.wait_for("Ingested", DATASET, "clipart", 60)


@pytest.mark.parametrize(("path", "field"), EXPLAINED.items())
def test_fields_are_explained(administrator: User, path: str, field: str) -> None:
    said = administrator.kubectl("explain", path)
    assert f"  {field}\t" in said
    assert "<no description>" not in said


def test_one_word_shows_everything(administrator: User) -> None:
    said = administrator.kubectl("get", "evenkeel", "--all-namespaces")
    for name in (CLUSTER, TOPIC, DATASET, CACHE):
        assert f"{name.split('s.')[0]}." in said, said


def read_row(user: User, kind: str, name: str, *words: str) -> dict[str, str]:
    head, line = user.kubectl("get", kind, name, *words).splitlines()
    titles = head.split()
    # The last column of a wide row is a sentence.
    return dict(zip(titles, line.split(maxsplit=len(titles) - 1), strict=True))


def test_columns_of_a_cluster(administrator: User) -> None:
    administrator.wait_reason("Measured", CLUSTER, DEMO_CLUSTER, 60)  # a broker may miss one measurement
    row = read_row(administrator, "bcl", DEMO_CLUSTER)
    status = administrator.get(CLUSTER, DEMO_CLUSTER)["status"]
    assert (row["READY"], row["REASON"]) == ("True", "Measured")
    assert int(row["MAXFILLPERMILLE"]) == pytest.approx(status["maxFillPermille"], abs=5)
    wide = read_row(administrator, "bcl", DEMO_CLUSTER, "--output", "wide")
    assert wide["BROKERS"] == "4"
    assert wide["CLUSTER-ID"] == status["clusterId"]


def test_columns_of_a_topic(administrator: User) -> None:
    # The topic has no inflow, so nothing is predicted: those two columns are empty.
    administrator.wait_for("Ready", TOPIC, "events", 60)
    line = administrator.kubectl("get", "btp", "events", "--no-headers")
    assert line.split()[:4] == ["events", "True", "Ready", "Routed"]


def test_columns_of_a_dataset(vision: User) -> None:
    row = read_row(vision, "tds", "digits")
    assert (row["READY"], row["REASON"]) == ("True", "Sealed")
    assert (row["INGESTEDPERCENT"], row["WARMNODES"]) == ("100", "2")
    assert read_row(vision, "tds", "digits", "--output", "wide")["RECORDS"] == "1797"


def test_columns_of_a_cache(administrator: User) -> None:
    (first, *_) = administrator.list(CACHE)
    row = read_row(administrator, "ncache", first["metadata"]["name"])
    assert row["READY"] == "True"
    assert 0 < int(row["DISKUSABLEBYTES"]) <= int(row["DISKTOTALBYTES"])


def test_the_simplest_training_pod_ran_on_a_node_that_was_warm(vision: User) -> None:
    warm = {cache["metadata"]["name"] for cache in vision.list(CACHE)}
    pods = vision.list("pods", "batch.kubernetes.io/job-name=digits-training")
    assert {pod["spec"]["nodeName"] for pod in pods} <= warm
    assert all("schedulingGates" not in pod["spec"] for pod in pods)
