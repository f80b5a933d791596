from __future__ import annotations

from dataclasses import dataclass

import pytest

from evenkeel.domain.connection import Connection
from evenkeel.errors import FencedError
from evenkeel.keeper.moving.mover import Mover
from tests.support.moving_world import Life, World, two_batches

HERE, THERE = Connection(("a:1",)), Connection(("b:1",))


@dataclass
class Claim:
    """What a mover asks of one."""

    held: bool = True
    epoch: int = 1


class Lives:
    """Counts how often a journal was opened."""

    def __init__(self, world: World) -> None:
        self.claim, self.opened, self._world = Claim(), 0, world
        self.mover = Mover(
            self.claim,  # type: ignore[arg-type]
            monotonic=lambda: world.kafka.now,
            open_hand=lambda _: world.kafka,
            open_journal=self._open,
        )

    def _open(self, *_: object) -> Life:
        self.opened += 1
        return Life(self._world.journal)

    def turn(self, connection: Connection = HERE) -> object:
        try:
            return self.mover.turn(connection, self._world.plan, self._world.settings)
        finally:
            self._world.kafka.tick(1)


def test_without_the_claim_nothing_is_asked() -> None:
    world = two_batches()
    lives = Lives(world)
    lives.claim.held = False
    assert lives.turn() is None
    assert (lives.opened, world.kafka.calls) == (0, [])


def test_each_life_begins_with_the_journal() -> None:
    world = two_batches()
    lives = Lives(world)
    for _ in range(4):
        assert lives.turn() is not None
    assert lives.opened == 1
    assert lives.mover.events == ()
    lives.claim.epoch = 2
    lives.turn()
    assert lives.opened == 2
    lives.turn(THERE)
    assert lives.opened == 3
    assert world.kafka.calls


def test_a_claim_that_is_lost_ends_the_life() -> None:
    world = two_batches()
    lives = Lives(world)
    lives.turn()
    world.journal.owner += 1
    world.kafka.tick(60)
    with pytest.raises(FencedError):
        lives.turn()
    lives.turn()
    assert lives.opened == 2
