"""`kubectl evenkeel` against a real API server: decisions, races, pauses, rights. No operator, no Kafka."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evenkeel import names
from evenkeel.cli.kubectl.decide import Wish, decide
from evenkeel.cli.kubectl.screen import Screen
from evenkeel.cli.kubectl.session import RefusedError, Session
from evenkeel.kube.kubeconfig import connect_user
from integration.apiserver.server import ApiServer, await_right
from integration.operator_process import REPOSITORY, Api, cluster
from integration.processes import Process, wait_until

KIND, PLAN = "rbp", "main-0123456789"
Object = dict[str, Any]


def plan(name: str = PLAN, size: int = 1000, **spec: Any) -> Object:
    expires = datetime.now(UTC) + timedelta(days=1)
    body = {
        "clusterRef": {"name": "main"},
        "planHash": "0123456789abcdef",
        "expirationTime": f"{expires:%Y-%m-%dT%H:%M:%SZ}",
        "reason": "MovesPlanned",
        "message": "1 move brings the deviation from 50.0% to 2.0%",
        "bytes": size,
        "seconds": 60,
        "moves": [
            {
                "batch": 0,
                "topic": "clicks",
                "partition": 0,
                "source": [1],
                "target": [2],
                "bytes": size,
                "copiedTo": 2,
            }
        ],
        "batches": [{"number": 0, "seconds": 60, "bytes": size}],
        "fills": [{"volume": "1:/data", "beforePermille": 600, "afterPermille": 400, "peakPermille": 600}],
        **spec,
    }
    return {
        "apiVersion": names.GROUP_VERSION,
        "kind": "RebalancePlan",
        "metadata": {"name": name},
        "spec": body,
    }


class Plugin:
    """The plugin as a process, with somebody's kubeconfig."""

    def __init__(self, api: Api, kubeconfig: Path) -> None:
        self._api, self.kubeconfig = api, kubeconfig

    def command(self, *words: str) -> list[str]:
        where = ["--kubeconfig", str(self.kubeconfig), "-n", self._api.namespace]
        return [sys.executable, "-m", "evenkeel.cli.kubectl", *words, *where]

    def __call__(self, *words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            self.command(*words),
            env={"PYTHONPATH": str(REPOSITORY / "operator"), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def plugin(api: Api, apiserver: ApiServer) -> Plugin:
    api.apply(cluster("main"), plan())
    return Plugin(api, apiserver.kubeconfig())


def approval(api: Api) -> str:
    return str((api.get(KIND, PLAN) or {})["spec"]["approval"])


def condition(status: str, reason: str, message: str) -> Object:
    return {
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip


def test_a_plan_is_shown_and_approved(api: Api, plugin: Plugin, tmp_path: Path) -> None:
    code, out, _ = plugin("plan")
    assert code == 0
    assert "clicks" in out
    assert f"kubectl evenkeel approve {PLAN}" in out
    picture = tmp_path / "plan.svg"
    code, out, _ = plugin("plan", "main", "-o", "json", "--plot", str(picture))
    assert (code, json.loads(out)["spec"]["approval"]) == (0, "Pending")
    assert picture.read_text().startswith("<svg")
    code, out, _ = plugin("approve")
    assert (code, approval(api)) == (0, "Approved")
    assert "1.0 kB to move in 1 move" in out
    managers = (json.loads(api.kubectl(
        "get", KIND, PLAN, "-n", api.namespace, "-o", "json", "--show-managed-fields"
    )))["metadata"]["managedFields"]  # fmt: skip
    assert "kubectl-evenkeel" in [one["manager"] for one in managers]
    assert plugin("approve", PLAN)[0] == 0
    code, _, said = plugin("reject", PLAN)
    assert code == 3
    assert "kubectl evenkeel cancel" in said


def test_a_rejection_is_final(api: Api, plugin: Plugin) -> None:
    assert plugin("cancel")[0] == 3
    assert plugin("reject", "--yes")[0] == 0
    assert approval(api) == "Rejected"
    code, _, said = plugin("approve", PLAN)
    assert (code, approval(api)) == (3, "Rejected")
    assert "was rejected, which is final" in said


async def decide_while(
    api: Api, kubeconfig: Path, wish: Wish, meanwhile: Callable[[], object]
) -> tuple[int, str]:
    """As a person who thinks about it while something happens."""

    def ask(_: str) -> str:
        meanwhile()
        return "y"

    out = io.StringIO()
    screen = Screen(Console(file=out, width=120), Console(file=io.StringIO()), ask)
    access = await connect_user(str(kubeconfig), None, manager="kubectl-evenkeel")
    try:
        session = Session(access.kube, api.namespace)
        code = await decide(session, screen, wish, PLAN, yes=False, now=datetime.now(UTC))
    finally:
        await access.kube.close()
    return code, out.getvalue()


async def test_what_changed_while_it_was_shown_is_not_approved(api: Api, plugin: Plugin) -> None:
    def replace() -> None:
        api.delete(KIND, PLAN)
        api.await_absent(KIND, PLAN)
        api.apply(plan(size=999_000_000))

    with pytest.raises(RefusedError, match="nothing was written: it is another plan"):
        await decide_while(api, plugin.kubeconfig, Wish.APPROVE, replace)
    assert approval(api) == "Pending"


async def test_somebody_else_decides_first(api: Api, plugin: Plugin) -> None:
    reject = json.dumps({"spec": {"approval": "Rejected"}})
    words = ("patch", KIND, PLAN, "-n", api.namespace, "--type=merge", "-p", reject)
    with pytest.raises(RefusedError, match="was rejected"):
        await decide_while(api, plugin.kubeconfig, Wish.APPROVE, lambda: api.kubectl(*words))
    assert approval(api) == "Rejected"


async def test_progress_does_not_stop_a_cancellation(api: Api, plugin: Plugin) -> None:
    api.kubectl(
        "patch", KIND, PLAN, "-n", api.namespace, "--type=merge", "-p", '{"spec": {"approval": "Approved"}}'
    )
    api.patch_status(KIND, PLAN, {"state": "Running", "percent": 10})
    code, _ = await decide_while(
        api, plugin.kubeconfig, Wish.CANCEL, lambda: api.patch_status(KIND, PLAN, {"percent": 40})
    )
    assert (code, approval(api)) == (0, "Rejected")


def test_pause_resume_and_status(api: Api, plugin: Plugin) -> None:
    volumes = [{"broker": 1, "path": "/data", "totalBytes": 1000, "usedBytes": 600}]
    api.patch_status("bcl", "main", {"volumes": volumes, "brokers": 1})
    for command, state in (("pause", "Paused"), ("pause", "Paused"), ("resume", "Active")):
        code, _, _ = plugin(command)
        assert (code, (api.get("bcl", "main") or {})["spec"]["state"]) == (0, state)
    code, out, _ = plugin("status")
    assert code == 0
    for wanted in ("BalancedCluster main (Active, 1 broker)", "60.0 %", "█", PLAN):
        assert wanted in out


def test_a_plan_is_watched_to_its_end(api: Api, plugin: Plugin, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(REPOSITORY / "operator")}
    following = Process(plugin.command("status", "main", "--watch"), tmp_path / "watch.log", environment)
    try:
        running = {"state": "Running", "percent": 40, "batch": 1, "batches": 1, "moves": 1}
        wait_until("the plan to be followed", lambda: "waits for a decision" in following.output())
        api.patch_status(KIND, PLAN, running)
        wait_until("progress", lambda: "40 % Running, batch 1 of 1" in following.output())
        ready = condition("True", "Moved", "1 of 1 moves is done")
        api.patch_status(KIND, PLAN, {"state": "Finished", "percent": 100, "conditions": [ready]})
        assert following.wait(60) == 0
        assert f"{PLAN}: Moved: 1 of 1 moves is done" in following.output()
    finally:
        following.stop()
    code, out, _ = plugin("plan")
    assert code == 3
    assert "main has no open plan: Starting" in out


def test_a_right_that_is_missing_is_named(api: Api, plugin: Plugin, apiserver: ApiServer) -> None:
    api.kubectl("create", "serviceaccount", "viewer", "-n", api.namespace)
    rules = "--resource=rebalanceplans.evenkeel.dev,balancedclusters.evenkeel.dev"
    api.kubectl("create", "role", "viewer", "-n", api.namespace, "--verb=get,list,watch", rules)
    who = f"--serviceaccount={api.namespace}:viewer"
    api.kubectl("create", "rolebinding", "viewer", "-n", api.namespace, "--role=viewer", who)
    user = f"system:serviceaccount:{api.namespace}:viewer"
    await_right(api.kubectl, user, "list", "rebalanceplans.evenkeel.dev", "-n", api.namespace)
    token = api.kubectl("create", "token", "viewer", "-n", api.namespace).strip()
    viewer = Plugin(api, apiserver.kubeconfig_for(token, f"viewer-{api.namespace}"))
    assert viewer("plan")[0] == 0
    code, _, said = viewer("approve", "-y")
    assert (code, approval(api)) == (2, "Pending")
    assert f"you may not patch rebalanceplans.evenkeel.dev in namespace {api.namespace}" in said
    nobody = Plugin(api, apiserver.kubeconfig("alice"))
    code, _, said = nobody("status")
    assert code == 2
    assert "you may not list balancedclusters.evenkeel.dev" in said
