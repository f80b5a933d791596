from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.cli.kubectl import main as plugin
from evenkeel.cli.kubectl.main import main, parse, run
from evenkeel.cli.kubectl.session import RefusedError, Session
from evenkeel.reasons import Reason
from tests.support.plan_api import NAMESPACE, NOW, PlanApi, Terminal, build_cluster, build_plan


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plan"], "no plan to draw"),
        (["plan", "main", "-o", "json"], '"approval": "Pending"'),
        (["approve", "-y"], "approved;"),
        (["reject", "main-0123456789"], "rejected;"),
        (["pause"], "is paused"),
        (["resume", "main"], "already active"),
        (["status"], "fullest volume"),
    ],
)
async def test_each_command_is_run(words: list[str], told: str) -> None:
    objects = [build_cluster(), *([] if words == ["plan"] else [build_plan()])]
    terminal = Terminal()
    options = parse([*words, *(["--plot", "x.svg"] if words == ["plan"] else [])])
    assert await run(Session(PlanApi(*objects), NAMESPACE), terminal.screen, options, NOW) == 0
    assert told in terminal.out + terminal.err


@pytest.mark.parametrize(
    "words", [[], ["dance"], ["plan", "a", "b"], ["plan", "-o", "xml"], ["approve", "--watch"]]
)
def test_wrong_words_are_bad_input(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "kubectl evenkeel" in capsys.readouterr().err


def test_a_refusal_ends_with_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def refuse(*_: object) -> int:
        raise RefusedError("it is finished", reason=Reason.PLAN_OUTDATED)

    monkeypatch.setattr(plugin, "_connect", refuse)
    assert main(["approve"]) == 3
    assert capsys.readouterr().err == "kubectl evenkeel: it is finished (PlanOutdated)\n"


def test_no_kubeconfig_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "there is no such file; name one by --kubeconfig or KUBECONFIG" in capsys.readouterr().err


def test_words_are_read_before_anything_heavy_is_loaded() -> None:
    code = "import sys, evenkeel.cli.kubectl.main as m; m.parse(['plan']); print(sorted({n.split('.')[0] for n in sys.modules}))"
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, check=True
    )
    for heavy in ("scipy", "numpy", "rich", "confluent_kafka", "kubernetes", "pydantic"):
        assert f"'{heavy}'" not in found.stdout.decode()


def test_a_command_never_loads_planner_or_kafka() -> None:
    modules = ("decide", "pause", "plan", "status", "session", "screen")
    names = ", ".join(f"evenkeel.cli.kubectl.{one}" for one in modules)
    code = f"import sys, {names}; print(sorted({{n.split('.')[0] for n in sys.modules}}))"
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, check=True
    )
    for heavy in ("scipy", "numpy", "confluent_kafka", "kafka", "kopf", "pyarrow"):
        assert f"'{heavy}'" not in found.stdout.decode()
