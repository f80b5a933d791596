from __future__ import annotations

from typing import Any

from evenkeel import names
from evenkeel.controller.preload import plan_preload
from evenkeel.domain import codec
from evenkeel.domain.job import JobSpec
from tests.support.world import DIGEST, SEAL, World, dataset, gated_pod, node, ready_world, settle

UID = "uid-digits"
WARM = names.warm_label(UID)


def preloading(*nodes: dict[str, Any], **preload: Any) -> World:
    """A sealed dataset `digits` with preload on these nodes, NodeCaches planned."""
    world = ready_world(
        dataset(preload={"mode": "Required", **preload}), planned_slices=1, finished_slices=1, seal=SEAL
    )
    for one in nodes:
        world.add(one)
    settle(world)
    world.run("Preload", "")
    settle(world)
    return world


def cache_says(world: World, name: str, state: str = "", disk: int = 10_000, **more: Any) -> None:
    held = [{"datasetUID": UID, "digest": DIGEST, "state": state, **more}] if state else []
    status = {"endpoint": f"http://{name}:7443", "diskTotalBytes": disk, "revisions": held}
    world.change("NodeCache", name, namespace="", status=status)


def labels_of(world: World, name: str) -> dict[str, Any]:
    found = {}
    for patch in world.plan("Preload", "").patches:
        if patch.name == name and not isinstance(patch.body, tuple):
            found.update(patch.body["metadata"]["labels"])
    return found


def test_nodes_with_gpus_get_a_cache_and_others_do_not() -> None:
    world = preloading(node("a", gpus=2), node("b", **{names.GPU_LABEL: "true"}), node("c"))
    assert sorted(one["metadata"]["name"] for one in world.store.all("NodeCache")) == ["a", "b"]
    cache = world.get("NodeCache", "a", "") or {}
    assert cache["spec"]["nodeUID"] == "uid-a"
    (wanted,) = cache["spec"]["wanted"]
    loader = world.get("ServiceAccount", "digits-loader") or {}
    assert wanted["loaderUID"] == loader["metadata"]["uid"]
    assert wanted["reference"] == names.dataset_reference("data", "digits")
    assert cache["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert labels_of(world, "a") == {names.LABEL_CACHE_NODE: "true"}
    assert labels_of(world, "c") == {}


def test_node_selector_chooses_instead() -> None:
    world = preloading(node("a", gpus=2), node("c", disk="fast"), nodeSelector={"disk": "fast"})
    assert [one["metadata"]["name"] for one in world.store.all("NodeCache")] == ["c"]


def test_no_node_is_said() -> None:
    world = preloading(node("c"))
    assert world.condition("TrainingDataset", "digits", "Preloaded") == ("False", "NoGpuNodes")


def test_dataset_without_preload_writes_no_cache() -> None:
    world = ready_world(dataset(), planned_slices=1, finished_slices=1, seal=SEAL)
    world.add(node("a", gpus=1))
    plan = world.plan("Preload", "")
    assert (plan.children, plan.patches) == ((), ())


def test_loader_runs_when_the_cache_listens() -> None:
    world = preloading(node("a", gpus=1))
    assert world.condition("TrainingDataset", "digits", "Preloaded") == ("False", "CacheUnavailable")
    cache_says(world, "a")
    settle(world)
    (job,) = (one for one in world.store.all("Job") if "loader" in one["metadata"]["name"])
    pod = job["spec"]["template"]["spec"]
    spec = codec.loads(JobSpec, pod["containers"][0]["env"][0]["value"])
    assert spec.loader is not None
    assert (spec.loader.endpoint, spec.loader.digest, spec.loader.holder_node) == (
        "http://a:7443",
        DIGEST,
        "a",
    )
    token = next(
        one["projected"]["sources"][0]["serviceAccountToken"] for one in pod["volumes"] if "projected" in one
    )
    assert token["audience"] == names.TOKEN_AUDIENCE
    mount = next(one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "token")
    assert f"{mount['mountPath']}/{token['path']}" == spec.loader.token_path
    assert world.condition("TrainingDataset", "digits", "Preloaded") == ("False", "Preloading")


def test_job_success_is_no_evidence() -> None:
    world = preloading(node("a", gpus=1))
    cache_says(world, "a")
    settle(world)
    (job,) = (one for one in world.store.all("Job") if "loader" in one["metadata"]["name"])
    ended = {
        "type": "Complete",
        "status": "True",
        "lastTransitionTime": world.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    world.change("Job", job["metadata"]["name"], status={"conditions": [ended]})
    settle(world)
    assert world.condition("TrainingDataset", "digits", "Preloaded")[0] == "False"
    world.pass_time(11)
    settle(world)
    assert len([one for one in world.store.all("Job") if "loader" in one["metadata"]["name"]]) == 2


def test_warm_is_what_the_cache_says() -> None:
    world = preloading(node("a", gpus=1), node("b", gpus=1))
    cache_says(world, "a", "Warm")
    settle(world)
    assert "1 of 2" in world.message("TrainingDataset", "digits", "Preloaded")
    cache_says(world, "b", "Warm")
    settle(world)
    assert world.condition("TrainingDataset", "digits", "Preloaded") == ("True", "Warm")
    status = (world.get("TrainingDataset", "digits") or {})["status"]["preload"]
    assert status == {"wantedNodes": 2, "warmNodes": 2}


def test_cache_of_a_node_that_was_made_anew_is_not_warm() -> None:
    world = preloading(node("a", gpus=1))
    cache_says(world, "a", "Warm")
    world.change("Node", "a", namespace="", metadata={"uid": "another"})
    settle(world)
    assert world.condition("TrainingDataset", "digits", "Preloaded")[0] == "False"


def test_failed_copy_gives_its_reason() -> None:
    world = preloading(node("a", gpus=1))
    cache_says(world, "a", "Failed", reason="ShardCorrupt", message="shard 1 differs")
    settle(world)
    assert world.condition("TrainingDataset", "digits", "Preloaded") == ("False", "ShardCorrupt")


def test_what_does_not_fit_is_not_wanted() -> None:
    world = preloading(node("a", gpus=1))
    cache_says(world, "a", disk=1000)
    world.run("Preload", "")
    settle(world)
    assert (world.get("NodeCache", "a", "") or {})["spec"]["wanted"] == []
    assert world.condition("TrainingDataset", "digits", "Preloaded") == ("False", "DoesNotFit")


def test_warm_label_only_while_a_pod_asks() -> None:
    world = preloading(node("a", gpus=1, **{names.LABEL_CACHE_NODE: "true"}))
    cache_says(world, "a", "Warm")
    assert labels_of(world, "a") == {}
    pod = world.add(gated_pod("rank", "digits"))
    assert labels_of(world, "a") == {WARM: "true"}
    world.change(
        "Node",
        "a",
        namespace="",
        metadata={"labels": {names.GPU_LABEL: "true", names.LABEL_CACHE_NODE: "true", WARM: "true"}},
    )
    assert labels_of(world, "a") == {}
    world.add({**pod, "status": {"phase": "Succeeded"}})
    assert labels_of(world, "a") == {WARM: None}


def test_nothing_changes_on_a_second_look() -> None:
    world = preloading(node("a", gpus=1, **{names.LABEL_CACHE_NODE: "true"}))
    cache_says(world, "a", "Warm")
    settle(world)
    first = world.run("Preload", "")
    assert first.patches == ()
    assert world.plan("Preload", "").children == first.children


def test_plan_is_empty_without_anything() -> None:
    from evenkeel.controller.preload import PreloadInput

    plan = plan_preload(PreloadInput((), {}, (), {}, (), frozenset()))
    assert (plan.children, plan.patches, plan.sayings) == ((), (), ())


def test_node_whose_gpus_are_away_for_a_while_keeps_what_it_holds() -> None:
    world = preloading(node("a", gpus=2))
    world.add(node("a"))
    world.run("Preload", "")
    cache = world.get("NodeCache", "a", "") or {}
    assert [one["datasetUID"] for one in cache["spec"]["wanted"]] == [UID]


def test_account_that_somebody_deleted_costs_no_copy() -> None:
    world = preloading(node("a", gpus=2))
    before = world.get("NodeCache", "a", "")
    account = world.get("ServiceAccount", "digits-loader")
    assert before is not None
    assert account is not None
    world.store.put("DELETED", account)
    world.run("Preload", "")
    after = world.get("NodeCache", "a", "")
    assert after is not None
    assert after["spec"] == before["spec"]
