"""Plans through whatever happens to keeper, user and receiver: the end is clean and told as it is."""

from __future__ import annotations

from random import Random

import pytest

from evenkeel.domain.moves import Approval, PlanReport, PlanState
from evenkeel.reasons import Reason
from tests.support.balanced import INTERVAL, Keeper, build_uneven
from tests.support.moving_world import assert_clean

LONGEST = 3600
RECEIVER = 3


class Story:
    """One seeded run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.keeper = build_uneven(megabytes=self.random.choice([50, 300, 700]))
        self.keeper.measure()
        self.keeper.open(approval=Approval.APPROVED)
        self.back_at: float | None = None
        self.rejected = False

    def run(self) -> PlanReport:
        measured = 0.0
        while self.keeper.kafka.now < LONGEST:
            if self.keeper.kafka.now - measured >= INTERVAL and not self.keeper.kafka.cut:
                self.keeper.measure()
                measured = self.keeper.kafka.now
            self.keeper.turn()
            told = self.keeper.balancing.progress
            if told is not None and told.state is PlanState.FINISHED:
                return told
            if self.keeper.kafka.now < LONGEST / 10:
                self.happen()
            else:
                self.keeper.want(paused=False)
            self.revive()
        raise AssertionError(f"{self.keeper.balancing.progress}\n{self.keeper.journal.text}")

    def happen(self) -> None:
        chance = self.random.random()
        if chance < 0.04:
            self.keeper.restart(forgetful=self.random.random() < 0.3)
            self.keeper.claim.epoch += 1
        elif chance < 0.07:
            self.keeper.want(paused=not self.keeper.desired.paused)
        elif chance < 0.08 and self.back_at is None:
            self.keeper.kafka.kill(RECEIVER)
            self.back_at = self.keeper.kafka.now + self.random.choice([5, 60])
        elif chance < 0.083:
            self.keeper.decide(Approval.REJECTED)
            self.rejected = True
        elif chance < 0.10:
            self.keeper.kafka.cut = not self.keeper.kafka.cut
        elif self.random.random() < 0.2:
            self.keeper.kafka.cut = False

    def revive(self) -> None:
        if self.back_at is not None and self.keeper.kafka.now >= self.back_at:
            self.keeper.kafka.revive(RECEIVER)
            self.back_at = None
        if self.keeper.kafka.now > LONGEST / 10:
            self.keeper.kafka.cut = False


def count_moved(keeper: Keeper) -> int:
    return sum(tuple(one.replicas) != (1,) for one in keeper.kafka.topics["t"].partitions)


@pytest.mark.parametrize("seed", range(6))
def test_the_end_is_clean_and_told_as_it_is(seed: int) -> None:
    story = Story(seed)
    told = story.run()
    assert_clean(story.keeper.kafka)
    assert told.moves_done - told.moves_failed == count_moved(story.keeper)
    if told.reason is Reason.MOVED:
        assert (told.moves_failed, told.moves_done) == (0, told.moves)
    if told.reason is Reason.PLAN_REJECTED:
        assert story.rejected
    assert told.events[-1].reason is told.reason
