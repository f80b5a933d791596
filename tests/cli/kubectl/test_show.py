"""What `plan`, `status`, `pause` and `resume` show and do."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from evenkeel import names
from evenkeel.api.meta import State
from evenkeel.cli.kubectl.pause import set_state
from evenkeel.cli.kubectl.plan import show_plan
from evenkeel.cli.kubectl.session import RefusedError, Session
from evenkeel.cli.kubectl.status import show_status
from evenkeel.errors import ConfigurationError, InputError
from evenkeel.kube.failures import KindAbsentError
from tests.support.plan_api import (
    NAMESPACE,
    Object,
    PlanApi,
    Terminal,
    build_cluster,
    build_condition,
    build_finished,
    build_plan,
    build_running,
)

GOLDEN = Path(__file__).parents[2] / "data/kubectl"


async def plan(
    *objects: Object, name: str | None = None, output: str = "table", plot: str | None = None
) -> tuple[int, Terminal]:
    terminal = Terminal()
    return await show_plan(
        Session(PlanApi(*objects), NAMESPACE), terminal.screen, name, output, plot
    ), terminal


async def status(*objects: Object, name: str | None = None) -> tuple[int, Terminal]:
    terminal = Terminal()
    return await show_status(
        Session(PlanApi(*objects), NAMESPACE), terminal.screen, name, watch=False
    ), terminal


async def watch(
    *changes: tuple[str, Object], first: Object | None = None, gone: bool = False
) -> tuple[int, Terminal]:
    terminal = Terminal()
    api = PlanApi(build_cluster(), *([first] if first else []))
    api.changes = list(changes)
    shown = show_status(Session(api, NAMESPACE), terminal.screen, None, watch=True)
    if gone:
        with pytest.raises(RefusedError, match="was deleted"):
            await shown
        return 3, terminal
    return await shown, terminal


def text_of(terminal: Terminal) -> str:
    return "".join(f"{line.rstrip()}\n" for line in terminal.out.splitlines())


async def test_a_plan_as_a_table() -> None:
    code, terminal = await plan(build_cluster(), build_plan())
    assert code == 0
    assert text_of(terminal) == (GOLDEN / "plan.txt").read_text()


async def test_the_older_of_two_open_plans_is_the_open_one() -> None:
    younger = build_plan("a-young", made="2026-03-01T11:00:00Z")
    _, terminal = await plan(build_cluster(), younger, build_plan(), build_plan("elsewhere", "other"))
    assert "RebalancePlan main-0123456789 of" in terminal.out


@pytest.mark.parametrize("output", ["json", "yaml"])
async def test_a_plan_for_git(output: str) -> None:
    item = build_plan()
    owner = {"kind": "BalancedCluster", "name": "main", "uid": "uid-main", "controller": True}
    item["metadata"] |= {
        "managedFields": [{"manager": "x"}],
        "ownerReferences": [owner],
        "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        "annotations": {"evenkeel.dev/applied": "0123"},
    }
    code, terminal = await plan(build_cluster(), item, output=output)
    found = json.loads(terminal.out) if output == "json" else yaml.safe_load(terminal.out)
    assert code == 0
    assert found == {
        "apiVersion": names.GROUP_VERSION,
        "kind": "RebalancePlan",
        "metadata": {"name": "main-0123456789", "namespace": NAMESPACE},
        "spec": item["spec"],
    }


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("RoutingHeals", 0),
        ("NothingToDo", 0),
        ("NoFeasibleMove", 3),
        ("MoveBudgetTooSmall", 3),
        ("Foreign", 3),
    ],
)
async def test_why_there_is_no_plan(reason: str, code: int) -> None:
    moves = {
        "reason": reason,
        "message": "so it is",
        "cure": "Route",
        "routingSeconds": 7200,
        "limitSeconds": 864_000,
    }
    found, terminal = await plan(build_cluster(moves=moves), build_finished())
    assert found == code
    assert f"main has no open plan: {reason}: so it is" in terminal.out
    assert "Route (routing alone needs 2 h; the first disk reaches the limit in 10 d)" in terminal.out


async def test_the_condition_knows_better_why_there_is_no_plan() -> None:
    rejected = build_condition(
        "PlanPending", "False", "PlanRejected", "main-1 was rejected: nothing new before noon"
    )
    code, terminal = await plan(build_cluster(conditions=[rejected]))
    assert code == 3
    assert "PlanRejected: main-1 was rejected: nothing new before noon" in terminal.out


async def test_what_the_operator_says_of_a_plan_is_shown() -> None:
    held = [build_condition("Ready", "False", "MoveHeld", "clicks-0 goes on: its source is away")]
    _, terminal = await status(build_cluster(), build_running(conditions=held))
    assert "left; MoveHeld: clicks-0 goes on" in terminal.out
    paused = [build_condition("Ready", "False", "Paused", "approved, but paused")]
    approved = build_plan(spec={"approval": "Approved"}, status={"conditions": paused})
    _, terminal = await watch(("ADDED", approved), ("DELETED", approved), first=approved, gone=True)
    assert "0 % approved, but paused" in terminal.err


async def test_an_unmeasured_cluster_says_so_and_json_stays_empty() -> None:
    code, terminal = await plan(build_cluster(moves=None), output="json")
    assert (code, terminal.out) == (3, "")
    assert "Starting: the cluster was not measured yet" in terminal.err


async def test_a_picture_of_the_open_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    code, terminal = await plan(build_cluster(), build_plan(), plot=str(path))
    assert code == 0
    assert str(path) in terminal.err.replace("\n", "")
    bars = [one for one in ET.parse(path).iter() if one.get("class") == "after"]
    assert len(bars) == 3


async def test_without_a_plan_there_is_no_picture(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    _, terminal = await plan(build_cluster(), plot=str(path))
    assert "no picture" in terminal.err
    assert not path.exists()


@pytest.mark.parametrize(
    ("objects", "name", "told"),
    [
        ([], None, r"namespace kafka has no BalancedCluster \(there: none\)"),
        ([build_cluster("a"), build_cluster("b")], None, "several BalancedClusters: name one of a, b"),
        ([build_cluster("a")], "c", r"no BalancedCluster c \(there: a\); -n names another namespace"),
    ],
)
async def test_which_cluster_is_meant_must_be_clear(
    objects: list[Object], name: str | None, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        await plan(*objects, name=name)


async def test_the_status_of_a_cluster_whose_plan_runs() -> None:
    code, terminal = await status(build_cluster(), build_running(movesFailed=1))
    assert code == 0
    assert text_of(terminal) == (GOLDEN / "status.txt").read_text()


async def test_the_status_of_all_clusters_of_a_namespace() -> None:
    _, terminal = await status(build_cluster("a"), build_cluster("b"), build_plan(cluster="b"))
    assert "BalancedCluster a " in terminal.out
    assert "BalancedCluster b " in terminal.out
    assert terminal.out.count("no open plan") == 1
    with pytest.raises(InputError, match="has no BalancedCluster"):
        await status()


async def test_the_last_plan_is_told_where_none_is_open() -> None:
    older = build_finished("PlanExpired", "nobody decided")
    older["metadata"]["name"] = "older"
    older["status"]["conditions"][0]["lastTransitionTime"] = "2026-02-01T10:00:00Z"
    _, terminal = await status(build_cluster(), build_finished(), older)
    assert "no open plan; the last one was main-0123456789: Moved: 2 of 2 moves are done" in terminal.out


async def test_many_volumes_show_the_fullest() -> None:
    volumes = [
        {"broker": broker, "path": "/d", "totalBytes": 1000, "usedBytes": 5 * broker}
        for broker in range(1, 101)
    ]
    _, terminal = await status(build_cluster(volumes=volumes))
    assert "... and 60 less full volumes" in terminal.out
    assert "50.0 %" in terminal.out
    assert " 5.0 %" not in terminal.out


async def test_a_plan_is_followed_to_its_end() -> None:
    running = build_running(percent=80)
    code, terminal = await watch(
        ("ADDED", build_plan()), ("MODIFIED", running), ("MODIFIED", build_finished()), first=build_plan()
    )
    assert code == 0
    assert "0 % waits for a decision: kubectl evenkeel approve main-0123456789" in terminal.err
    assert (
        "80 % Running, batch 2 of 2, 1 of 2 moves, 150.0 kB of 200.0 kB, at most 10.0 MB/s, about 90 s left"
        in (terminal.err)
    )
    assert "main-0123456789: Moved: 2 of 2 moves are done" in terminal.out


async def test_a_plan_that_did_not_move_everything_ends_with_3() -> None:
    end = build_finished("PlanOutdated", "broker 3 is away")
    code, terminal = await watch(("ADDED", end), first=build_running())
    assert code == 3
    assert "PlanOutdated: broker 3 is away" in terminal.out


async def test_nothing_to_follow_is_fine() -> None:
    code, terminal = await watch(first=build_finished())
    assert code == 0
    assert "no open plan to follow" in terminal.err


async def test_a_plan_that_is_deleted_while_it_is_followed() -> None:
    with pytest.raises(RefusedError, match="was deleted"):
        await watch(("DELETED", build_running()), first=build_running())
    other = build_running()
    other["metadata"]["uid"] = "another"
    with pytest.raises(RefusedError, match="was deleted"):
        await watch(("ADDED", other), first=build_running())


@pytest.mark.parametrize(
    ("state", "wanted", "written", "told"),
    [
        ("Active", State.PAUSED, 1, "is paused: it is measured"),
        ("Paused", State.PAUSED, 0, "is already paused"),
        ("Paused", State.ACTIVE, 1, "is active"),
        ("Active", State.ACTIVE, 0, "is already active"),
    ],
)
async def test_pause_and_resume(state: str, wanted: State, written: int, told: str) -> None:
    cluster = build_cluster()
    cluster["spec"]["state"] = state
    api, terminal = PlanApi(cluster), Terminal()
    assert await set_state(Session(api, NAMESPACE), terminal.screen, None, wanted) == 0
    assert len(api.writes) == written
    assert api.objects["BalancedCluster", "main"]["spec"]["state"] == wanted.value
    assert told in terminal.out


async def test_missing_kinds_and_rights_say_what_to_do() -> None:
    class Old(PlanApi):
        async def list(self, *_: object, **__: object) -> list[Object]:
            raise KindAbsentError("404")

    for api, told in (
        (Old(), "does not know balancedclusters.evenkeel.dev: install or upgrade Evenkeel's CRDs"),
        (PlanApi(), "you may not list balancedclusters.evenkeel.dev in namespace kafka: ask for a role"),
    ):
        api.forbidden = ("list",)
        with pytest.raises(ConfigurationError, match=told):
            await show_status(Session(api, NAMESPACE), Terminal().screen, None, watch=False)


async def test_an_object_of_another_version_is_named() -> None:
    item = build_plan(spec={"approval": "Perhaps"})
    with pytest.raises(InputError, match=r"RebalancePlan main-0123456789: spec.approval: .*as new as"):
        await plan(build_cluster(), item)
