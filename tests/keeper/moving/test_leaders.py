from __future__ import annotations

import pytest

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.kafka.answers import PartitionAnswer, TopicAnswer
from evenkeel.keeper.moving.leaders import find_elections

MOVE = Move("t", 0, (1, 2), (3, 2), 5, copied_to=3)


def topics(leader: int | None, isr: tuple[int, ...]) -> dict[str, TopicAnswer]:
    rows = (PartitionAnswer(0, leader, (3, 2), isr), PartitionAnswer(1, 2, (3, 2), (3, 2)))
    return {"t": TopicAnswer("t", "id", internal=False, partitions=rows)}


@pytest.mark.parametrize(
    ("leader", "isr", "online", "due"),
    [
        (2, (2, 3), {2, 3}, True),
        (3, (2, 3), {2, 3}, False),
        (2, (2,), {2, 3}, False),
        (2, (2, 3), {2}, False),
    ],
)
def test_the_first_replica_is_to_lead_where_it_is_alive_and_in_sync(
    leader: int, isr: tuple[int, ...], online: set[int], *, due: bool
) -> None:
    assert find_elections([MOVE], topics(leader, isr), online) == ((("t", 0),) if due else ())


@pytest.mark.parametrize(
    "move",
    [
        Move("t", 0, (3, 2), (2, 4), 5, copied_to=4),
        Move("t", 0, (3, 2), (3, 2), 5, "/b", MoveKind.DIRECTORY, 3, 3),
    ],
)
def test_what_did_not_move_between_brokers_keeps_its_leader(move: Move) -> None:
    assert find_elections([move], topics(2, (2, 3)), {2, 3, 4}) == ()


def test_only_partitions_of_the_plan_are_looked_at() -> None:
    assert find_elections([MOVE], topics(3, (2, 3)), {2, 3}) == ()
    assert find_elections([MOVE], {}, {2, 3}) == ()
