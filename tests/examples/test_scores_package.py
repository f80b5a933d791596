"""The example package as a user has it: built, installed, found by its entry point, run by the keeper."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.domain.exchange import Policy, Score, ScoreReport, TopicRouting
from evenkeel.keeper.score_packages import find_packaged
from evenkeel.keeper.score_process import Limits
from evenkeel.keeper.scores import Scores
from evenkeel.planning.routing import plan_routes
from evenkeel.reasons import Reason
from tests.support.snapshots import demo_snapshot

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "scores-package"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip installed the package into; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    words = [*pip, *offline, "--target", str(folder), str(PACKAGE)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_it_is_found_by_its_entry_point(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Maintenance" not in find_packaged()
    monkeypatch.syspath_prepend(str(installed))
    (entry,) = find_packaged()["Maintenance"]
    assert entry.value == "evenkeel_maintenance:maintenance"


def test_it_keeps_new_bytes_away_from_a_broker(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    snapshot = demo_snapshot()
    wanted = (Score("Storage"), Score("Maintenance", 100, {"brokers": "3"}))
    routing = {"clipart": TopicRouting(scores=wanted)}
    scores = Scores(Limits(call_seconds=30))
    try:
        found = scores.evaluate(snapshot, routing)
    finally:
        scores.close()
    assert found.reports["clipart"][1] == ScoreReport("Maintenance", Reason.ROUTED)
    policy = Policy(slack_percent=50)
    led = {p.partition: p.leader for p in snapshot.partitions if p.topic == "clipart"}

    def share(costs: dict[str, dict[int, float]]) -> float:
        weights = plan_routes(snapshot, routing, policy, costs).topics["clipart"].weights
        return sum(weight for number, weight in enumerate(weights) if led[number] == 3)

    # Broker 3 has the emptiest disk: fill draws bytes there, the score drives them away.
    assert share({"clipart": dict(found.costs["clipart"])}) < share({}) / 2


def test_its_own_tests_pass(installed: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(installed), str(ROOT / "operator")))}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(PACKAGE)]
    done = subprocess.run(
        [*words, "-c", os.devnull, str(PACKAGE / "tests")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
