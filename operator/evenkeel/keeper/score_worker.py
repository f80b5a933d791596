"""The process of one score of a package: loads it once, then answers requests until its input ends.

`python -m evenkeel.keeper.score_worker NAME MEMORY_BYTES CALL_SECONDS`

It is contained against mistakes, not against malice: what is installed beside the keeper is trusted as the
keeper is. It has no secrets in its environment, a limit on memory, and ends by itself when a call takes twice
its time, even where the keeper is gone. What the score prints goes nowhere.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from evenkeel.domain import codec
from evenkeel.errors import EvenkeelError
from evenkeel.keeper.score_messages import ScoreAnswer, ScoreCall, ScoreReply, ScoreRequest, shorten
from evenkeel.keeper.score_packages import load_packaged
from evenkeel.planning.scores.protocol import Costs, ScoreFunction
from evenkeel.reasons import Reason

NICENESS = 5
"""Measuring and routing come before scores."""
LOAD_SECONDS = 60.0
"""The keeper gives up earlier; this ends a process whose keeper is gone."""
TOLD = {Reason.SCORE_INVALID, Reason.SNAPSHOT_INCOMPLETE}
"""Reasons that a score may give by itself; every other error is a failure."""


def main(arguments: list[str]) -> int:
    """Serve one score. Exit: 0 input ended, 1 the score could not be loaded."""
    name, memory, seconds = arguments
    requests, replies = _take_pipes()
    signal.setitimer(signal.ITIMER_REAL, LOAD_SECONDS)
    _limit(int(memory))
    try:
        score = load_packaged(name)
    except Exception as error:  # noqa: BLE001 - importing a package may raise anything
        _send(replies, ScoreReply(0, failure=shorten(f"{type(error).__name__}: {error}")))
        return 1
    _send(replies, ScoreReply(0))
    signal.setitimer(signal.ITIMER_REAL, 0)
    for line in requests:
        signal.setitimer(signal.ITIMER_REAL, 2 * float(seconds))
        request = codec.loads(ScoreRequest, line)
        _send(replies, answer_request(score, request))
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes under private numbers, so that nothing the score prints or reads meets them."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return requests, replies


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    # Where the pod's memory runs out, the kernel should end this process and not the keeper.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def answer_request(score: ScoreFunction, request: ScoreRequest) -> ScoreReply:
    """Costs of every topic asked for; a topic that fails does not take the others along."""
    return ScoreReply(request.sequence, tuple(_answer(score, request, call) for call in request.calls))


def _answer(score: ScoreFunction, request: ScoreRequest, call: ScoreCall) -> ScoreAnswer:
    try:
        costs: object = score(request.snapshot, call.topic, call.parameters)
        if not isinstance(costs, Costs):
            kind = type(costs).__name__
            return ScoreAnswer(call.topic, None, Reason.SCORE_INVALID, f"gave a {kind} instead of Costs")
        return ScoreAnswer(call.topic, _plain(costs))
    except EvenkeelError as error:
        reason = error.reason if error.reason in TOLD else Reason.SCORE_FAILED
        return ScoreAnswer(call.topic, None, reason, shorten(error.message))
    except Exception as error:  # noqa: BLE001 - a score may raise anything
        what = shorten(f"raised {type(error).__name__}: {error}")
        return ScoreAnswer(call.topic, None, Reason.SCORE_FAILED, what)


def _plain(costs: Costs) -> Costs:
    """Numbers of libraries, such as NumPy's, as Python's own."""

    def numbers(mapping: Mapping[int, float]) -> dict[int, float]:
        return {int(key): float(value) for key, value in mapping.items()}

    return Costs(numbers(costs.leader), numbers(costs.follower), numbers(costs.partition))


def _send(replies: BinaryIO, reply: ScoreReply) -> None:
    replies.write(codec.dumps(reply).encode() + b"\n")
    replies.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
