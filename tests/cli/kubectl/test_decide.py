from __future__ import annotations

from datetime import timedelta

import pytest

from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.cli.kubectl.decide import Answer, Wish, decide, judge
from evenkeel.cli.kubectl.session import RefusedError, Session
from evenkeel.errors import InputError, RetryableError
from tests.support.plan_api import (
    NAMESPACE,
    NOW,
    Object,
    PlanApi,
    Terminal,
    build_condition,
    build_finished,
    build_plan,
    build_running,
)

PLAN = "main-0123456789"
REJECTED = build_plan(spec={"approval": "Rejected"})
APPROVED = build_plan(spec={"approval": "Approved"})
INVALID = build_plan(
    status={"conditions": [build_condition("Ready", "False", "InvalidSpec", "spec.moves[0].target: wrong")]}
)
EXPIRED = build_plan(spec={"expirationTime": "2026-03-01T11:59:59Z"})


async def do(
    api: PlanApi, wish: Wish, name: str | None = None, *, terminal: Terminal | None = None, yes: bool = False
) -> tuple[int, Terminal]:
    terminal = terminal or Terminal()
    return await decide(Session(api, NAMESPACE), terminal.screen, wish, name, yes=yes, now=NOW), terminal


def approval(api: PlanApi) -> str:
    return str(api.objects["RebalancePlan", PLAN]["spec"]["approval"])


@pytest.mark.parametrize(
    ("item", "wish", "answer", "told"),
    [
        (build_plan(), Wish.APPROVE, Answer.POSSIBLE, "Approve main-0123456789: 2 moves, 200.0 kB?"),
        (build_plan(), Wish.REJECT, Answer.POSSIBLE, "cannot be approved again"),
        (build_plan(), Wish.CANCEL, Answer.REFUSED, "was not approved, so nothing of it runs"),
        (APPROVED, Wish.APPROVE, Answer.DONE, "approved already"),
        (APPROVED, Wish.REJECT, Answer.REFUSED, "`kubectl evenkeel cancel main-0123456789` stops it"),
        (APPROVED, Wish.CANCEL, Answer.POSSIBLE, "Cancel main-0123456789?"),
        (build_running(), Wish.APPROVE, Answer.DONE, "approved already"),
        (build_running(), Wish.CANCEL, Answer.POSSIBLE, "Cancel"),
        (REJECTED, Wish.APPROVE, Answer.REFUSED, "was rejected, which is final"),
        (REJECTED, Wish.REJECT, Answer.DONE, "rejected already"),
        (REJECTED, Wish.CANCEL, Answer.DONE, "rejected already"),
        (EXPIRED, Wish.APPROVE, Answer.REFUSED, "expired at 2026-03-01T11:59:59Z"),
        (INVALID, Wish.APPROVE, Answer.REFUSED, "cannot run as it stands: spec.moves[0].target: wrong"),
        (INVALID, Wish.REJECT, Answer.POSSIBLE, "Reject"),
        (EXPIRED, Wish.REJECT, Answer.POSSIBLE, "Reject"),
        (build_finished(), Wish.APPROVE, Answer.REFUSED, "is finished (Moved: 2 of 2 moves are done)"),
        (build_finished(), Wish.CANCEL, Answer.REFUSED, "is finished"),
    ],
)
def test_what_can_be_decided(item: Object, wish: Wish, answer: Answer, told: str) -> None:
    found = judge(RebalancePlan.model_validate(item), wish, NOW)
    assert found.answer is answer
    assert told in found.message


@pytest.mark.parametrize(
    ("item", "wish", "wanted"),
    [
        (build_plan(), Wish.APPROVE, "Approved"),
        (build_plan(), Wish.REJECT, "Rejected"),
        (build_running(), Wish.CANCEL, "Rejected"),
    ],
)
async def test_the_open_plan_is_decided_as_it_was_read(item: Object, wish: Wish, wanted: str) -> None:
    api = PlanApi(item)
    code, terminal = await do(api, wish)
    assert code == 0
    assert api.writes == [
        {"metadata": {"uid": f"uid-{PLAN}", "resourceVersion": "7"}, "spec": {"approval": wanted}}
    ]
    assert "200.0 kB to move in 2 moves" in terminal.out
    assert "about 2.5 min" in terminal.out


async def test_a_person_is_asked() -> None:
    for answer, code, wanted in (("y\n", 0, "Approved"), ("\n", 3, "Pending"), ("", 3, "Pending")):
        api = PlanApi(build_plan())
        found, terminal = await do(api, Wish.APPROVE, terminal=Terminal(answer))
        assert (found, approval(api)) == (code, wanted)
        assert terminal.questions == ["Approve main-0123456789: 2 moves, 200.0 kB? [y/N] "]


async def test_yes_does_not_ask() -> None:
    api = PlanApi(build_plan())
    _, terminal = await do(api, Wish.APPROVE, terminal=Terminal("n"), yes=True)
    assert terminal.questions == []
    assert approval(api) == "Approved"


async def test_what_is_so_already_is_fine_and_not_written() -> None:
    api = PlanApi(APPROVED)
    code, terminal = await do(api, Wish.APPROVE, PLAN)
    assert (code, api.writes) == (0, [])
    assert "approved already" in terminal.out


async def test_another_plan_of_the_same_name_is_not_approved() -> None:
    def replace(api: PlanApi) -> None:
        item = api.change("RebalancePlan", PLAN, spec={"bytes": 999_000_000})
        item["metadata"]["uid"] = "another"

    api = PlanApi(build_plan())
    api.interfere = replace
    terminal = Terminal()
    with pytest.raises(RefusedError, match="nothing was written: it is another plan"):
        await do(api, Wish.APPROVE, terminal=terminal)
    assert api.writes == []
    assert "It is now:" in terminal.out
    assert "999.0 MB" in terminal.out


async def test_somebody_else_decided_meanwhile() -> None:
    api = PlanApi(build_plan())
    api.interfere = lambda one: one.change("RebalancePlan", PLAN, spec={"approval": "Rejected"})
    with pytest.raises(RefusedError, match=r"changed while it was shown.*was rejected, which is final"):
        await do(api, Wish.APPROVE)
    assert approval(api) == "Rejected"


async def test_it_finished_meanwhile() -> None:
    api = PlanApi(build_plan())
    api.interfere = lambda one: one.change("RebalancePlan", PLAN, status={"state": "Finished"})
    with pytest.raises(RefusedError, match="is finished"):
        await do(api, Wish.APPROVE)
    assert approval(api) == "Pending"


async def test_it_was_deleted_meanwhile() -> None:
    class Gone(PlanApi):
        async def get(self, *_: object, **__: object) -> Object | None:
            return None

    api = Gone(build_plan())
    api.interfere = lambda one: one.change("RebalancePlan", PLAN)
    with pytest.raises(RefusedError, match="was deleted meanwhile"):
        await do(api, Wish.APPROVE)


async def test_progress_does_not_stop_a_cancellation() -> None:
    left = [1, 2, 3]

    def progress(api: PlanApi) -> None:
        if left:
            api.change("RebalancePlan", PLAN, status={"percent": 75 + left.pop()})

    api = PlanApi(build_running())
    api.interfere = progress
    code, _ = await do(api, Wish.CANCEL)
    assert (code, approval(api)) == (0, "Rejected")


async def test_one_that_never_rests_is_said() -> None:
    api = PlanApi(build_running())
    api.interfere = lambda one: one.change("RebalancePlan", PLAN)
    with pytest.raises(RetryableError, match="keeps changing while it is written; try again"):
        await do(api, Wish.CANCEL)


@pytest.mark.parametrize(
    ("objects", "name", "told"),
    [
        ([], None, "namespace kafka has no open RebalancePlan"),
        ([build_finished()], None, "no open RebalancePlan"),
        ([build_plan()], "other", r"no RebalancePlan other \(open: main-0123456789\)"),
        (
            [build_plan(), build_plan("b-1", "b")],
            None,
            "several open plans: name one of b-1, main-0123456789",
        ),
    ],
)
async def test_which_plan_is_meant_must_be_clear(objects: list[Object], name: str | None, told: str) -> None:
    with pytest.raises(InputError, match=told):
        await do(PlanApi(*objects), Wish.APPROVE, name)


async def test_a_named_plan_that_is_finished_is_refused() -> None:
    with pytest.raises(RefusedError, match="is finished"):
        await do(PlanApi(build_finished()), Wish.APPROVE, PLAN)


async def test_a_missing_right_is_named() -> None:
    api = PlanApi(build_plan())
    api.forbidden = ("patch",)
    with pytest.raises(InputError, match=r"you may not patch rebalanceplans.evenkeel.dev in namespace kafka"):
        await do(api, Wish.APPROVE)


def test_a_plan_without_an_end_of_its_time_expires_after_a_day() -> None:
    item = build_plan()
    del item["spec"]["expirationTime"]
    plan = RebalancePlan.model_validate(item)
    assert judge(plan, Wish.APPROVE, NOW).answer is Answer.POSSIBLE
    assert judge(plan, Wish.APPROVE, NOW + timedelta(days=1)).answer is Answer.REFUSED


async def test_plans_that_stand_by_are_not_meant() -> None:
    waits = build_condition("Ready", "False", "Conflict", "one plan at a time")
    first = build_plan("a-waits", made="2026-03-01T09:00:00Z", status={"conditions": [waits]})
    going = build_plan("b-going", made="2026-03-01T09:00:00Z")
    going["metadata"]["deletionTimestamp"] = "2026-03-01T11:00:00Z"
    api = PlanApi(first, going, build_plan("c-younger", made="2026-03-01T11:00:00Z"), build_plan())
    await do(api, Wish.APPROVE)
    assert approval(api) == "Approved"


async def test_one_that_has_begun_comes_before_older_ones() -> None:
    running = build_running()
    running["metadata"]["creationTimestamp"] = "2026-03-01T11:00:00Z"
    api = PlanApi(build_plan("a-older"), running)
    await do(api, Wish.CANCEL)
    assert approval(api) == "Rejected"
