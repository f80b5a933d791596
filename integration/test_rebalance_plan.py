"""RebalancePlan on a real API server: what may change, what is shown, and its way through the operator."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.api.plan_content import PEAKS_IN_ALL, build_spec, read_batches
from evenkeel.api.rebalance_plan import FILLS_LIMIT, MOVES_LIMIT, RebalancePlan
from evenkeel.domain.exchange import MovesReport
from evenkeel.domain.moves import (
    Approval,
    Batch,
    Move,
    PlanEvent,
    PlanReport,
    PlanState,
    ProposedPlan,
    VolumeFill,
    VolumePeak,
)
from evenkeel.reasons import Reason
from integration.apiserver.server import KubectlError
from integration.operator_process import Api, KeeperDouble, StartOperator, cluster
from integration.processes import wait_until

pytestmark = pytest.mark.timeout(240)
GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "data" / "api"
HASH = "0123456789abcdef" * 4
NAME = "kafka-0123456789"
MOVE = Move("orders", 0, (1, 2), (3, 2), 1000, copied_to=3, copied_from=1, freed_on=1, freed_bytes=1000)
ETCD_LIMIT = 1_500_000
"""Bytes of a request that etcd takes by default; 1 MiB in some installations."""


def proposal(hash_: str = HASH, **parts: Any) -> ProposedPlan:
    batch = Batch(0, (MOVE,), 10.0, 1000, (VolumePeak("3:/data", 600, 0.6),))
    values: dict[str, Any] = {
        "bytes": 1000,
        "lower_bound_bytes": 900,
        "seconds": 10,
        "cluster_id": "kafka-1",
        **parts,
    }
    return ProposedPlan(hash_, Reason.IMBALANCED, "volume 1:/data deviates by 40.0 %", (batch,), **values)


def largest() -> ProposedPlan:
    """As much as a plan may hold, with the longest names."""
    peaks = tuple(VolumePeak(f"{broker}:{'/d' * 100}", 10**13, 0.8) for broker in range(9))
    source = tuple(range(5))
    batches = tuple(
        Batch(
            number,
            (
                Move("t" * 249, number, source, (*source[:4], 9), 10**13, "/a" * 128, copied_to=9, copied_from=0,
                     freed_on=4, freed_dir="/b" * 128, freed_bytes=10**13),
            ),
            60.0, 10**13, peaks,
        )
        for number in range(MOVES_LIMIT)
    )  # fmt: skip
    fills = tuple(VolumeFill(f"{broker}:{'/d' * 100}", 999, 999, 999) for broker in range(FILLS_LIMIT))
    return replace(proposal(), batches=batches, fills=fills)


def in_a_day() -> datetime:
    return (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)


def plan_object(name: str, plan: ProposedPlan, approval: Approval = Approval.PENDING) -> dict[str, Any]:
    spec = build_spec(plan, "kafka", in_a_day(), approval).dump()
    return {
        "apiVersion": names.GROUP_VERSION,
        "kind": "RebalancePlan",
        "metadata": {"name": name},
        "spec": spec,
    }


def decide(api: Api, name: str, approval: str) -> None:
    body = json.dumps({"spec": {"approval": approval}})
    api.kubectl("patch", "rbp", name, "-n", api.namespace, "--type=merge", "-p", body)


def test_largest_plan_is_stored_and_its_moves_cannot_change(api: Api) -> None:
    plan = largest()
    api.kubectl("create", "-n", api.namespace, "-f", "-", stdin=json.dumps(plan_object("large", plan)))
    found = api.get("rbp", "large") or {}
    assert len(json.dumps(found, separators=(",", ":"))) < ETCD_LIMIT * 0.55
    spec = RebalancePlan.model_validate(found).spec
    assert [batch.moves for batch in read_batches(spec)] == [batch.moves for batch in plan.batches]
    assert sum(len(batch.peaks) for batch in spec.batches) == PEAKS_IN_ALL
    decide(api, "large", "Approved")
    patch = json.dumps([{"op": "replace", "path": f"/spec/moves/{MOVES_LIMIT - 1}/target/0", "value": 77}])
    with pytest.raises(KubectlError, match=r"spec\.moves.*moves must not change"):
        api.kubectl("patch", "rbp", "large", "-n", api.namespace, "--type=json", "-p", patch)


def test_every_field_of_the_spec_but_approval_is_fixed(api: Api) -> None:
    full = yaml.safe_load((GOLDEN / "valid" / "plan-full.yaml").read_text())
    full["spec"]["approval"] = "Pending"
    api.kubectl("create", "-n", api.namespace, "-f", "-", stdin=json.dumps(full))
    name = full["metadata"]["name"]
    for field in sorted(set(full["spec"]) - {"approval", "clusterRef", "moves"}):
        patch = json.dumps([{"op": "remove", "path": f"/spec/{field}"}])
        with pytest.raises(KubectlError, match=f"spec.{field}.*must not change"):
            api.kubectl("patch", "rbp", name, "-n", api.namespace, "--type=json", "-p", patch)
    for approval in ("Approved", "Rejected"):
        decide(api, name, approval)
    for approval in ("Approved", "Pending"):
        with pytest.raises(KubectlError, match="a rejection is final"):
            decide(api, name, approval)


def test_status_is_a_subresource_and_columns_show_it(api: Api) -> None:
    body = {**plan_object("shown", proposal()), "status": {"percent": 99}}
    api.kubectl("create", "-n", api.namespace, "-f", "-", stdin=json.dumps(body))
    assert (api.get("rbp", "shown") or {})["status"] == {"observedGeneration": -1}
    status = {"state": "Running", "percent": 40, "moves": 1, "bytes": 1000, "etaSeconds": 60}
    api.patch_status("rbp", "shown", {"observedGeneration": 1, **status})
    decide(api, "shown", "Approved")
    assert (api.get("rbp", "shown") or {})["status"]["percent"] == 40
    header, line = api.kubectl("get", "rbp", "-n", api.namespace).splitlines()
    assert header.split() == [
        "NAME", "READY", "REASON", "CLUSTER", "APPROVAL", "STATE", "PERCENT", "MOVES", "ETA", "AGE",
    ]  # fmt: skip
    assert line.split()[:7] == ["shown", "kafka", "Approved", "Running", "40", "1", "60"]
    assert "BYTES" in api.kubectl("get", "rbp", "-n", api.namespace, "-o", "wide")


def propose(keeper: KeeperDouble, plan: ProposedPlan | None) -> None:
    keeper.say(
        moves=MovesReport(Reason.MOVES_PLANNED, "1 move", "Move", moves=1, move_bytes=1000, proposal=plan)
    )


def started(api: Api, start_operator: StartOperator, **spec: Any) -> KeeperDouble:
    start_operator()
    api.apply(cluster(**spec))
    keeper = KeeperDouble(api, "kafka")
    keeper.start()
    keeper.say()
    api.await_condition("bcl", "kafka", ("True", "Measured"))
    return keeper


def report(keeper: KeeperDouble, state: PlanState, reason: Reason, **parts: Any) -> None:
    told = keeper.desired().plan
    assert told is not None
    values: dict[str, Any] = {"batches": 1, "moves": 1, "bytes": 1000, **parts}
    keeper.say(plan=PlanReport(told.uid, state, reason, f"it is {state}", **values))


def test_from_proposal_to_end(api: Api, start_operator: StartOperator) -> None:
    keeper = started(api, start_operator)
    propose(keeper, proposal())
    api.await_condition("rbp", NAME, ("False", "PlanPending"))
    api.await_condition("bcl", "kafka", ("True", "PlanPending"), "PlanPending")
    told = keeper.await_desired("the plan", lambda one: one.plan is not None).plan
    assert told is not None
    assert (told.name, told.hash, told.approval) == (NAME, HASH, Approval.PENDING)
    assert told.batches[0].moves == (MOVE,)
    propose(keeper, None)
    report(keeper, PlanState.PROPOSED, Reason.PLAN_PENDING)
    decide(api, NAME, "Approved")
    keeper.await_desired(
        "approval", lambda one: one.plan is not None and one.plan.approval is Approval.APPROVED
    )
    assert (api.get("bcl", "kafka") or {})["metadata"]["finalizers"] == [names.FINALIZER_MOVES]
    news = (PlanEvent(1, Reason.MOVING, "began with batch 1 of 1"),)
    report(
        keeper,
        PlanState.RUNNING,
        Reason.MOVING,
        batch=1,
        bytes_done=500,
        percent=50,
        eta_seconds=10,
        events=news,
    )
    api.await_condition("rbp", NAME, ("False", "Moving"))
    status = (api.get("rbp", NAME) or {})["status"]
    assert (status["state"], status["percent"], status["etaSeconds"]) == ("Running", 50, 10)
    wait_until("the event", lambda: "began with batch 1 of 1" in _events(api), every=0.3)
    report(keeper, PlanState.FINISHED, Reason.MOVED, bytes_done=1000, percent=100, moves_done=1, events=news)
    api.kubectl("wait", "--for=condition=Ready", f"rbp/{NAME}", "-n", api.namespace, "--timeout=60s")
    assert api.condition("rbp", NAME) == ("True", "Moved")
    keeper.await_desired("the end", lambda one: one.plan is None)
    assert _finalizers(api), "until the keeper says that nothing is under way"
    keeper.say(settled=True)
    wait_until("the finalizer to go", lambda: not _finalizers(api), every=0.3)


def _events(api: Api) -> str:
    return api.kubectl("get", "events.events.k8s.io", "-n", api.namespace, "-o", "json")


def _finalizers(api: Api) -> list[str]:
    return list((api.get("bcl", "kafka") or {})["metadata"].get("finalizers") or ())


def test_progress_is_written_at_most_every_five_seconds(api: Api, start_operator: StartOperator) -> None:
    keeper = started(api, start_operator, balance={"mode": "Automatic"})
    propose(keeper, proposal())
    keeper.await_desired(
        "approval", lambda one: one.plan is not None and one.plan.approval is Approval.APPROVED
    )
    assert (api.get("rbp", NAME) or {})["spec"]["approval"] == "Approved"
    report(keeper, PlanState.RUNNING, Reason.MOVING, percent=1)
    api.await_condition("rbp", NAME, ("False", "Moving"))
    began, versions = time.monotonic(), set()
    for percent in range(2, 14):
        report(keeper, PlanState.RUNNING, Reason.MOVING, percent=percent)
        versions.add((api.get("rbp", NAME) or {})["metadata"]["resourceVersion"])
    allowed = (time.monotonic() - began) / 5 + 2
    assert len(versions) <= allowed
    wait_until("the newest percent", lambda: _percent(api) == 13, every=0.3)


def _percent(api: Api) -> int:
    return int((api.get("rbp", NAME) or {})["status"]["percent"])


def test_rejection_stands_and_deleting_the_plan_ends_it(api: Api, start_operator: StartOperator) -> None:
    keeper = started(api, start_operator)
    propose(keeper, proposal())
    keeper.await_desired("the plan", lambda one: one.plan is not None)
    propose(keeper, None)
    decide(api, NAME, "Rejected")
    keeper.await_desired(
        "rejection", lambda one: one.plan is not None and one.plan.approval is Approval.REJECTED
    )
    report(keeper, PlanState.FINISHED, Reason.PLAN_REJECTED)
    api.await_condition("rbp", NAME, ("True", "PlanRejected"))
    api.await_condition("bcl", "kafka", ("False", "PlanRejected"), "PlanPending")
    keeper.await_desired("no more proposals", lambda one: one.plan is None and not one.propose)
    api.delete("rbp", NAME)
    keeper.await_desired("proposals again", lambda one: one.propose)
    keeper.say(plan=None)
    propose(keeper, proposal("f" * 64))
    api.await_object("rbp", "kafka-ffffffffff")


def test_plan_from_git_is_checked_and_told(api: Api, start_operator: StartOperator) -> None:
    keeper = started(api, start_operator)
    wrong = plan_object("wrong", proposal())
    wrong["spec"]["moves"][0]["target"] = [4, 5]
    foreign = plan_object("foreign", proposal(cluster_id="another"))
    lost = plan_object("lost", proposal())
    lost["spec"]["clusterRef"]["name"] = "nowhere"
    api.apply(wrong, foreign, lost, plan_object("good", proposal(), Approval.APPROVED))
    api.await_condition("rbp", "wrong", ("False", "InvalidSpec"))
    api.await_condition("rbp", "foreign", ("True", "PlanOutdated"))
    api.await_condition("rbp", "lost", ("False", "ClusterNotFound"))
    told = keeper.await_desired(
        "the plan", lambda one: one.plan is not None and one.plan.approval is Approval.APPROVED
    )
    assert told.plan is not None
    assert told.plan.name == "good"
    api.apply(plan_object("younger", proposal()))
    api.await_condition("rbp", "younger", ("False", "Conflict"))


def test_cluster_with_a_running_plan_goes_when_the_keeper_has_let_go(
    api: Api, start_operator: StartOperator
) -> None:
    keeper = started(api, start_operator)
    api.apply(plan_object("good", proposal(), Approval.APPROVED))
    keeper.await_desired(
        "approval", lambda one: one.plan is not None and one.plan.approval is Approval.APPROVED
    )
    report(keeper, PlanState.RUNNING, Reason.MOVING)
    api.delete("bcl", "kafka")
    api.await_condition("bcl", "kafka", ("False", "Deleting"))
    keeper.await_desired("release", lambda one: one.release and one.plan is None)
    keeper.say(plan=None, released=True)
    api.await_absent("bcl", "kafka")
    api.await_absent("deployment", names.keeper_name("kafka"))
