from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.domain.exchange import Score, ScoreReport, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.keeper import score_process
from evenkeel.keeper import scores as module
from evenkeel.keeper.score_process import Limits
from evenkeel.keeper.scores import Evaluation, Scores
from evenkeel.planning.scores.protocol import Costs
from evenkeel.reasons import Reason
from tests.support.scores import install
from tests.support.snapshots import GIB, broker, cluster, partitions_of
from tests.support.waiting import wait_until

SOURCE = """
import os, subprocess, time
from pathlib import Path
from evenkeel.errors import InputError, EvenkeelError
from evenkeel.planning.scores.protocol import Costs
from evenkeel.reasons import Reason

def lead(snapshot, topic, parameters):
    return Costs(leader={b.id: float(parameters.get("step", 1)) * b.id for b in snapshot.brokers})

def fail(snapshot, topic, parameters):
    raise ValueError("the moon is full\\nand so am I")

def hang(snapshot, topic, parameters):
    while not Path(parameters["until"]).exists():
        time.sleep(0.01)
    return lead(snapshot, topic, {})

def nan(snapshot, topic, parameters):
    return Costs(leader={b.id: float("nan") for b in snapshot.brokers})

def missing(snapshot, topic, parameters):
    return Costs(leader={0: 1.0})

def nothing(snapshot, topic, parameters):
    return None

def refuse(snapshot, topic, parameters):
    raise InputError("parameter step must be below 3, not 7", reason=Reason.SCORE_INVALID)

def die(snapshot, topic, parameters):
    os._exit(7)

def leave(snapshot, topic, parameters):
    child = subprocess.Popen(["sleep", "600"])
    (Path(parameters["folder"]) / "child").write_text(str(child.pid))
    os._exit(7)

def eat(snapshot, topic, parameters):
    return len(bytearray(1 << 30))

def chat(snapshot, topic, parameters):
    print("x" * 100_000)
    os.write(1, b"not json\\n")
    return lead(snapshot, topic, parameters)

def peep(snapshot, topic, parameters):
    raise ValueError(",".join(sorted(os.environ)))

def long(snapshot, topic, parameters):
    return Costs(leader={b.id: 1.0 for b in snapshot.brokers} | {i: 0.5 for i in range(1_000)})
"""
NAMES = (
    "lead",
    "fail",
    "hang",
    "nan",
    "missing",
    "nothing",
    "refuse",
    "die",
    "eat",
    "chat",
    "peep",
    "long",
    "leave",
)


def three() -> ClusterSnapshot:
    ring = [(0, 1), (1, 2), (2, 0)]
    parts = (*partitions_of("t", ring), *partitions_of("u", ring))
    return cluster([broker(i, GIB, 0, rack="aab"[i]) for i in range(3)], parts)


def routing(*names: str, **parameters: str) -> TopicRouting:
    return TopicRouting(scores=tuple(Score(name, 100, parameters) for name in names))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages with the scores above, capitalised, and a broken one."""
    folder = tmp_path / "packages"
    install(folder, "own_scores", SOURCE, {name.capitalize(): name for name in NAMES})
    install(folder, "broken", "import gone_for_good", {"Broken": "score"})
    install(folder, "one", "", {"Twice": "score", "NodeLoad": "score"})
    install(folder, "two", "", {"Twice": "score"})
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def scores(packages: Path) -> Iterator[Scores]:
    # Long enough for a busy machine: only `Hang` has to be slower.
    found = Scores(Limits(call_seconds=10))
    yield found
    found.close()
    assert not found.pids()


@pytest.fixture
def hasty(packages: Path) -> Iterator[Scores]:
    found = Scores(Limits(call_seconds=0.3))
    yield found
    found.close()


def evaluate_without_waiting(
    scores: Scores, wanted: Mapping[str, TopicRouting], waits: list[float]
) -> Evaluation:
    """Evaluate, and note every wait for an outcome."""

    def look() -> float:
        waits.append(time.monotonic())
        return waits[-1]

    scores._monotonic = look
    try:
        return scores.evaluate(three(), wanted)
    finally:
        scores._monotonic = time.monotonic
        del waits[:1]  # the deadline itself


def settle(scores: Scores, wanted: Mapping[str, TopicRouting], reason: Reason) -> Evaluation:
    """Evaluate until the first topic's first score is reported so."""

    def found() -> Evaluation | None:
        evaluation = scores.evaluate(three(), wanted)
        return evaluation if next(iter(evaluation.reports.values()))[0].reason is reason else None

    return wait_until(reason.value, found, seconds=30)


def test_storage_alone_costs_nothing_and_counts(scores: Scores) -> None:
    found = scores.evaluate(three(), {"t": routing("Storage")})
    assert found.costs == {}
    assert found.reports == {"t": (ScoreReport("Storage", Reason.ROUTED),)}


def test_built_in_costs_add_up_by_weight(scores: Scores) -> None:
    wanted = TopicRouting(scores=(Score("Storage"), Score("RackLocality", 200, {"rack": "a"})))
    found = scores.evaluate(three(), {"t": wanted})
    assert found.costs == {"t": {0: 0, 1: 0, 2: 5}}
    assert [report.reason for report in found.reports["t"]] == [Reason.ROUTED, Reason.ROUTED]


def test_a_score_with_no_weight_is_not_run(scores: Scores) -> None:
    wanted = TopicRouting(scores=(Score("Storage"), Score("Fail", 0)))
    assert scores.evaluate(three(), {"t": wanted}).reports["t"] == (ScoreReport("Storage", Reason.ROUTED),)
    assert scores.pids() == {}


def test_a_packaged_score_counts_for_each_of_its_topics(scores: Scores) -> None:
    found = scores.evaluate(three(), {"t": routing("Lead"), "u": routing("Lead", step="3")})
    assert found.costs == {"t": {0: 0, 1: 1, 2: 2}, "u": {0: 0, 1: 3, 2: 6}}
    assert found.reports["u"] == (ScoreReport("Lead", Reason.ROUTED),)


def test_its_process_is_started_once_and_used_again(scores: Scores) -> None:
    scores.evaluate(three(), {"t": routing("Lead")})
    first = scores.pids()
    scores.evaluate(three(), {"t": routing("Lead")})
    assert scores.pids() == first
    assert first["Lead"] != os.getpid()
    # The kernel ends it before the keeper where memory runs out.
    assert Path(f"/proc/{first['Lead']}/oom_score_adj").read_text() == "1000\n"


def test_a_score_that_nobody_wants_any_more_is_ended(scores: Scores) -> None:
    scores.evaluate(three(), {"t": routing("Lead")})
    pid = scores.pids()["Lead"]
    scores.evaluate(three(), {"t": routing("Storage")})
    assert scores.pids() == {}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("name", "reason", "said"),
    [
        ("Moon", Reason.SCORE_UNKNOWN, "no built-in score and no installed package"),
        ("Twice", Reason.SCORE_UNKNOWN, "2 installed packages have this name"),
        ("Broken", Reason.SCORE_FAILED, "No module named 'gone_for_good'"),
        ("Fail", Reason.SCORE_FAILED, "raised ValueError: the moon is full"),
        ("Nan", Reason.SCORE_INVALID, "leader cost of broker 0 .* not nan"),
        ("Missing", Reason.SCORE_INVALID, "leader cost of broker 1 is missing"),
        ("Nothing", Reason.SCORE_INVALID, "gave a NoneType instead of Costs"),
        ("Refuse", Reason.SCORE_INVALID, "parameter step must be below 3, not 7"),
        ("Die", Reason.SCORE_FAILED, "its process ended with exit code 7"),
        ("Eat", Reason.SCORE_FAILED, "raised MemoryError"),
        ("NodeLoad", Reason.SNAPSHOT_INCOMPLETE, "no broker's load is known"),
        ("RackLocality", Reason.SCORE_INVALID, "parameter rack is required"),
    ],
)
def test_a_score_that_cannot_be_used_is_dropped_and_said(
    scores: Scores, name: str, reason: Reason, said: str
) -> None:
    found = scores.evaluate(three(), {"t": routing(name, "DataDistribution")})
    report = found.reports["t"][0]
    assert (report.name, report.reason) == (name, reason)
    assert re.search(said, report.message)
    assert "\n" not in report.message
    # The other score counts all the same.
    assert found.reports["t"][1] == ScoreReport("DataDistribution", Reason.ROUTED)
    assert "t" in found.costs
    assert scores.take_drops() == {(name, reason): 1}
    assert scores.take_drops() == {}


def test_without_any_usable_score_a_topic_has_no_costs(scores: Scores) -> None:
    assert scores.evaluate(three(), {"t": routing("Moon", "Fail")}).costs == {}


def test_one_topic_that_fails_does_not_take_the_others_along(scores: Scores) -> None:
    found = scores.evaluate(three(), {"t": routing("Lead", step="much"), "u": routing("Lead")})
    assert found.reports["t"][0].reason is Reason.SCORE_FAILED
    assert found.costs == {"u": {0: 0, 1: 1, 2: 2}}


def test_a_process_that_died_is_started_again(scores: Scores) -> None:
    assert scores.evaluate(three(), {"t": routing("Die")}).reports["t"][0].reason is Reason.SCORE_FAILED
    scores.evaluate(three(), {"t": routing("Lead")})
    pid = scores.pids()["Lead"]
    os.kill(pid, 9)
    settle(scores, {"t": routing("Lead")}, Reason.SCORE_FAILED)
    settle(scores, {"t": routing("Lead")}, Reason.ROUTED)
    assert scores.pids()["Lead"] != pid


def test_what_a_dying_process_leaves_behind_is_ended_too(scores: Scores, tmp_path: Path) -> None:
    found = scores.evaluate(three(), {"t": routing("Leave", folder=str(tmp_path))})
    assert "exit code 7" in found.reports["t"][0].message
    child = Path("/proc", (tmp_path / "child").read_text(), "stat")

    def gone() -> bool:  # whoever inherits orphans here may leave a zombie
        return not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"

    wait_until("end of the child", gone)


def test_what_a_score_prints_meets_nobody(scores: Scores) -> None:
    assert scores.evaluate(three(), {"t": routing("Chat")}).costs == {"t": {0: 0, 1: 1, 2: 2}}


def test_an_endless_reply_is_refused(scores: Scores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_process, "LONGEST", 1_000)
    report = scores.evaluate(three(), {"t": routing("Long")}).reports["t"][0]
    assert report.reason is Reason.SCORE_INVALID
    assert "longer than" in report.message


def test_a_score_sees_no_secret(scores: Scores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SASL_PASSWORD", "hush")
    report = scores.evaluate(three(), {"t": routing("Peep")}).reports["t"][0]
    assert "PYTHONPATH" in report.message
    assert "PASSWORD" not in report.message


def test_a_late_score_is_killed_and_not_waited_for_again(hasty: Scores, tmp_path: Path) -> None:
    release = tmp_path / "release"
    wanted = {"t": routing("Hang", until=str(release))}
    began = time.monotonic()
    late = hasty.evaluate(three(), wanted)
    assert late.reports["t"][0].reason is Reason.SCORE_TIMED_OUT
    assert time.monotonic() - began < 5
    waits: list[float] = []
    again = evaluate_without_waiting(hasty, wanted, waits)
    assert waits == []
    assert again == late  # the report does not flicker
    release.touch()
    assert settle(hasty, wanted, Reason.ROUTED).costs == {"t": {0: 0, 1: 1, 2: 2}}


def test_a_hanging_process_is_gone_after_its_time(hasty: Scores, tmp_path: Path) -> None:
    wanted = {"t": routing("Hang", until=str(tmp_path / "never"))}
    hasty.evaluate(three(), wanted)
    pid = wait_until("a process", lambda: hasty.pids().get("Hang"), seconds=30)
    wait_until("its end", lambda: not Path(f"/proc/{pid}").exists(), seconds=30)


def test_closing_does_not_wait_for_a_hanging_score(packages: Path, tmp_path: Path) -> None:
    found = Scores(Limits(call_seconds=0.3))
    found.evaluate(three(), {"t": routing("Hang", until=str(tmp_path / "never"))})
    began = time.monotonic()
    found.close()
    assert time.monotonic() - began < 10
    assert found.pids() == {}


def test_several_late_scores_are_waited_for_together(packages: Path, tmp_path: Path) -> None:
    found = Scores(Limits(call_seconds=2.0))
    never = str(tmp_path / "never")
    install(packages, "more", "from own_scores import hang", {f"Hang{i}": "hang" for i in range(4)})
    began = time.monotonic()
    found.evaluate(three(), {"t": routing(*(f"Hang{i}" for i in range(4)), until=never)})
    assert time.monotonic() - began < 7
    found.close()


def test_a_mistake_in_a_built_in_score_drops_it(scores: Scores, monkeypatch: pytest.MonkeyPatch) -> None:
    def slip(snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(module, "BUILT_IN", {"Slip": slip})
    report = scores.evaluate(three(), {"t": routing("Slip")}).reports["t"][0]
    assert report == ScoreReport("Slip", Reason.SCORE_FAILED, "raised ZeroDivisionError: division by zero")


def test_a_drop_is_logged_once(scores: Scores, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        scores.evaluate(three(), {"t": routing("Moon")})
    assert caplog.text.count("score dropped score=Moon topic=t reason=ScoreUnknown") == 1
    assert scores.take_drops() == {("Moon", Reason.SCORE_UNKNOWN): 3}


def test_a_large_snapshot_goes_through_the_pipe(scores: Scores) -> None:
    ring = [(i % 3, (i + 1) % 3) for i in range(10_000)]
    snapshot = replace(three(), partitions=partitions_of("t", ring))
    found = scores.evaluate(snapshot, {"t": routing("Lead")})
    assert len(found.costs["t"]) == 10_000


def test_no_threads_are_left(packages: Path) -> None:
    found = Scores()
    found.evaluate(three(), {"t": routing("Fail")})
    found.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("score-")]


def test_the_request_is_the_json_of_a_score_request() -> None:
    from evenkeel.domain import codec
    from evenkeel.keeper.score_messages import ScoreCall, ScoreRequest

    calls = (ScoreCall("t", {"a": "1"}),)
    text = module._encode(3, calls, lambda: codec.dumps(three()))
    assert json.loads(text)["sequence"] == 3
    assert codec.loads(ScoreRequest, text) == ScoreRequest(3, calls, three())
