from __future__ import annotations

import pytest

from evenkeel.keeper.moving.progress import MoveProgress, find_events, measure_speed
from evenkeel.keeper.moving.run import RunState
from evenkeel.reasons import Reason


def progress(
    done: int = 0, *, reason: Reason = Reason.MOVING, state: RunState = RunState.RUNNING, plan: str = "p"
) -> MoveProgress:
    return MoveProgress(
        plan, "hash", reason, str(reason), state=state, batches=2, moves=4, bytes=100, bytes_done=done
    )


@pytest.mark.parametrize(
    ("points", "speed"),
    [
        ({}, None),
        ({0.0: 0}, None),
        ({0.0: 0, 9.0: 90}, None),
        ({0.0: 0, 5.0: 7, 10.0: 100}, 10.0),
        ({0.0: 5, 20.0: 5}, None),
    ],
)
def test_a_speed_is_measured_over_ten_seconds_at_least(points: dict[float, int], speed: float | None) -> None:
    assert measure_speed(points) == speed


def test_without_bytes_moves_are_counted() -> None:
    assert MoveProgress("p", "n", Reason.MOVING, "", moves=4, moves_done=1).percent == 25
    assert MoveProgress("p", "n", Reason.MOVING, "").percent == 0


ENDED = progress(100, reason=Reason.MOVED, state=RunState.FINISHED)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, progress(), ["plan hash: 4 moves, 100 bytes, 2 batches"]),
        (progress(10), progress(24), []),
        (progress(10), progress(60), ["plan hash: 25 percent", "plan hash: 50 percent"]),
        (progress(60), progress(60, reason=Reason.MOVE_HELD), ["MoveHeld"]),
        (progress(60, reason=Reason.MOVE_HELD), progress(60, reason=Reason.MOVE_HELD), []),
        (progress(60, reason=Reason.MOVE_HELD), progress(60), []),
        (progress(80), ENDED, ["Moved"]),
        (ENDED, ENDED, []),
        (ENDED, progress(plan="q"), ["plan hash: 4 moves, 100 bytes, 2 batches"]),
        (None, ENDED, []),
        (progress(), MoveProgress("", "", Reason.NOTHING_TO_DO, ""), []),
    ],
)
def test_what_is_told_is_told_once(before: MoveProgress | None, after: MoveProgress, told: list[str]) -> None:
    assert [event.message for event in find_events(before, after)] == told
