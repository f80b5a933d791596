from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from evenkeel.cli.tables import print_moves, print_plan, shorten, tell_costs
from evenkeel.domain.exchange import Policy
from evenkeel.domain.moves import Batch, Move, MoveKind, ProposedPlan, VolumeFill, VolumePeak
from evenkeel.planning.moves_plan import Choice, Cure, MovesPlan, Refusal
from evenkeel.planning.proposal import build_fills, build_proposal
from evenkeel.reasons import Reason

GOLDEN = Path(__file__).parents[1] / "data/kubectl"
MOVES = (
    Move("t", 0, (1, 2), (3, 2), 10_000_000, copied_to=3),
    Move("t", 1, (1,), (1,), 20_000_000, "/b", MoveKind.DIRECTORY, 1),
    Move("t", 2, (1, 2), (1,), 0, kind=MoveKind.REMOVE),
    Move("u", 0, (1,), (1, 3), 5_000_000, kind=MoveKind.ADD, copied_to=3),
)
PLAN = MovesPlan(
    Reason.MOVES_PLANNED,
    "4 moves",
    hash="abcdef0123456789",
    moves=MOVES,
    bytes=35_000_000,
    lower_bound_bytes=34_000_000,
    deviation_before=0.5,
    deviation_after=0.021,
    batches=(
        Batch(0, MOVES[:2], 3.0, 30_000_000, (VolumePeak("3:/a", 0, 0.41), VolumePeak("1:/b", 0, 0.52))),
        Batch(1, MOVES[2:], 0.5, 5_000_000, (VolumePeak("3:/a", 0, 0.44),)),
    ),
    seconds=3.5,
    fills_before={"1:/a": 0.7, "1:/b": 0.3, "3:/a": 0.4},
    fills_after={"1:/a": 0.5, "1:/b": 0.5, "3:/a": 0.43},
    choice=Choice(Cure.MOVE, Reason.ROUTING_TOO_SLOW, "routing is too slow: it needs 3 d", 259_200, None),
    refusals=(Refusal("broker/4", Reason.DRAIN_BLOCKED, "[3 replicas] may not move"),),
)


def show(plan: MovesPlan) -> str:
    out = io.StringIO()
    print_moves(plan, Policy(), Console(file=out, width=100, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def test_a_plan_of_the_planner() -> None:
    assert show(PLAN) == (GOLDEN / "moves.txt").read_text()


def test_a_volume_rises_to_the_highest_of_its_batches() -> None:
    assert build_fills(PLAN) == (
        VolumeFill("1:/a", 700, 500, 700),
        VolumeFill("1:/b", 300, 500, 520),
        VolumeFill("3:/a", 400, 430, 440),
    )


def test_what_is_too_long_is_cut_and_said() -> None:
    moves = tuple(replace(MOVES[0], partition=number) for number in range(100))
    batches = tuple(Batch(number, (move,), 1.0, 1) for number, move in enumerate(moves))
    fills = tuple(VolumeFill(f"{number}:/d", number, number, number) for number in range(100))
    plan = replace(build_proposal(PLAN), batches=batches, fills=fills)
    out = io.StringIO()
    print_plan(plan, Console(file=out, width=100, color_system=None))
    for told in ("... and 40 more", "... and 80 batches more", "... and 60 volumes between these"):
        assert told in out.getvalue()


def test_of_many_volumes_the_fullest_and_emptiest_stay_in_their_order() -> None:
    fills = [VolumeFill(str(number), (number * 37) % 100, 0, 0) for number in range(100)]
    kept = shorten(fills)
    assert [fills.index(one) for one in kept] == sorted(fills.index(one) for one in kept)
    assert sorted(one.before_permille for one in kept) == [*range(20), *range(80, 100)]


def test_a_bound_above_the_bytes_is_not_told() -> None:
    plan = ProposedPlan("h", Reason.MOVES_PLANNED, "", (), bytes=10, lower_bound_bytes=20, seconds=60)
    assert list(tell_costs(plan)) == [
        "10 bytes to move in 0 moves",
        "0 batches, about 60 s at 10 MB/s at first per broker",
    ]
    fixed = replace(plan, throttle_bytes_per_second=50_000_000)
    assert "at 50.0 MB/s per broker" in list(tell_costs(fixed))[1]
