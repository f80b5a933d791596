"""Whatever users, keepers and the clock do: one plan at a time, and nothing runs that was not approved."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel import names
from evenkeel.domain.exchange import MovesReport
from evenkeel.domain.moves import Approval, DesiredPlan, PlanReport, PlanState
from evenkeel.reasons import Reason
from tests.support.plans import proposed, written
from tests.support.world import START, Object, cluster, ready_world

KIND = "RebalancePlan"
ENDS = (Reason.MOVED, Reason.PLAN_OUTDATED, Reason.PLAN_REJECTED, Reason.PLAN_EXPIRED)
MODES = st.sampled_from(["Disabled", "Propose", "Automatic"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("propose"), st.sampled_from("abc")),
        st.tuples(st.just("write"), st.sampled_from(["b", "z"]), st.sampled_from(["Pending", "Approved"])),
        st.tuples(st.just("decide"), st.integers(0, 3), st.sampled_from(["Approved", "Rejected"])),
        st.tuples(st.just("report"), st.sampled_from([PlanState.RUNNING, PlanState.PAUSED])),
        st.tuples(st.just("end"), st.sampled_from(ENDS)),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.just("mode"), MODES),
        st.tuples(st.just("wait"), st.sampled_from([60, 3600, 90_000])),
    ),
    max_size=14,
)


class Course:
    """A world, what was told in it, and what must hold after each step."""

    def __init__(self) -> None:
        self.world = ready_world()
        self.ended: dict[str, str] = {}
        self.running: str | None = None
        """UID of the plan that the keeper says runs."""
        self.made = 0

    def make(self, action: str, *arguments: Any) -> None:
        getattr(self, f"_{action}")(*arguments)
        for _ in range(3):
            self.world.run("BalancedCluster", "kafka")  # as if the operator died before its patches
            self._check()
            self._round()
            self._check()

    def _round(self) -> None:
        self.world.run("BalancedCluster", "kafka", patches=True)
        for item in self._plans():
            if self.world.get(KIND, item["metadata"]["name"]) is not None:
                self.world.run(KIND, item["metadata"]["name"], patches=True)

    def _plans(self) -> list[Object]:
        return sorted(map(dict, self.world.store.all(KIND)), key=lambda one: str(one["metadata"]["name"]))

    def _told(self) -> DesiredPlan | None:
        return self.world.desired().plan

    def _propose(self, letter: str) -> None:
        plan = proposed(letter * 64)
        self.world.report(moves=MovesReport(Reason.MOVES_PLANNED, "m", moves=4, proposal=plan))

    def _write(self, name: str, approval: str) -> None:
        if self.world.get(KIND, name) is None:
            item = written(name, approval=approval)
            self.made += 1
            item["metadata"]["uid"] = f"uid-{self.made}"
            item["metadata"]["creationTimestamp"] = self.world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            self.world.add(item)

    def _decide(self, number: int, approval: str) -> None:
        found = self._plans()
        if not found:
            return
        item = found[number % len(found)]
        if item["spec"]["approval"] != "Rejected":  # as the API server sees to
            meta = {"generation": item["metadata"]["generation"] + 1}
            spec = {**item["spec"], "approval": approval}
            self.world.change(KIND, item["metadata"]["name"], metadata=meta, spec=spec)

    def _report(self, state: PlanState) -> None:
        told = self._told()
        if told is not None and (told.approval is Approval.APPROVED or self.running == told.uid):
            self.running = told.uid
            self.world.report(plan=PlanReport(told.uid, state, Reason.MOVING, "m", batch=1, batches=2))

    def _end(self, reason: Reason) -> None:
        told = self._told()
        if told is not None:
            self.running = None
            self.world.report(plan=PlanReport(told.uid, PlanState.FINISHED, reason, "m"))

    def _delete(self, number: int) -> None:
        found = self._plans()
        if found:
            item = found[number % len(found)]
            self.world.store.put("DELETED", item)
            self.ended.pop(item["metadata"]["uid"], None)  # one of the same name gets it again here
            if item["metadata"]["uid"] == self.running:
                self.running = None

    def _mode(self, mode: str) -> None:
        self.world.change("BalancedCluster", "kafka", spec=cluster(balance={"mode": mode})["spec"])

    def _wait(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    def _check(self) -> None:
        told, plans = self._told(), {item["metadata"]["uid"]: item for item in self._plans()}
        if told is not None and told.approval is Approval.APPROVED:
            assert plans[told.uid]["spec"]["approval"] == "Approved"
            meta = (self.world.get("BalancedCluster", "kafka") or {})["metadata"]
            assert names.FINALIZER_MOVES in (meta.get("finalizers") or ())
        if self.running is not None:
            assert told is not None, "a plan that runs is not told any more"
            assert told.uid == self.running, "another plan takes the place of one that runs"
        self._check_ended(plans)

    def _check_ended(self, plans: dict[str, Object]) -> None:
        for uid, item in plans.items():
            status = item.get("status") or {}
            if uid in self.ended:
                assert status["state"] == "Finished", "a plan that had ended goes on"
            if status.get("state") == "Finished":
                ready = next(one for one in status["conditions"] if one["type"] == "Ready")
                assert ready["status"] == "True"
                assert self.ended.setdefault(uid, ready["reason"]) == ready["reason"]

    def check_rest(self) -> None:
        """Once nothing changes any more: what is told is open, and nothing is left over."""
        told = self._told()
        open_ones = [one for one in self._plans() if (one.get("status") or {}).get("state") != "Finished"]
        assert (told is None) == (not open_ones)
        self.world.report(settled=self.running is None)
        self.world.run("BalancedCluster", "kafka", patches=True)
        finalizers = (self.world.get("BalancedCluster", "kafka") or {})["metadata"].get("finalizers") or []
        approved = told is not None and (told.approval is Approval.APPROVED or self.running == told.uid)
        assert (finalizers == [names.FINALIZER_MOVES]) == approved
        rejected = [
            one
            for one in self._plans()
            if one["spec"]["approval"] == "Rejected"
            and self.ended.get(one["metadata"]["uid"]) == "PlanRejected"
        ]
        if any(self._lasts(one) for one in rejected):
            assert not self.world.desired().propose

    def _lasts(self, item: Object) -> bool:
        made = item["spec"].get("expirationTime")
        return made is not None and str(made) > self.world.now.strftime("%Y-%m-%dT%H:%M:%SZ")


@settings(max_examples=30)
@given(MODES, STEPS)
def test_one_plan_at_a_time_and_only_what_was_approved(mode: str, steps: list[tuple[Any, ...]]) -> None:
    course = Course()
    assert course.world.now == START
    course.make("mode", mode)
    for step in steps:
        course.make(*step)
    course.check_rest()
