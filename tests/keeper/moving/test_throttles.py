from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.domain.waits import Waits
from evenkeel.kafka.answers import BrokerRates
from evenkeel.kafka.wire import FOLLOWER_RATE, LEADER_RATE
from evenkeel.keeper.moving.decide import decide
from evenkeel.keeper.moving.executor import find_needed
from evenkeel.keeper.moving.plan import approve_batches
from evenkeel.keeper.moving.run import RunState
from evenkeel.keeper.moving.settings import MoveSettings
from evenkeel.keeper.moving.steps import AddEntries, DropRate, Reassign, SetRate
from evenkeel.keeper.moving.watch import Watch
from evenkeel.reasons import Reason
from tests.support.moving_kafka import GB, MB
from tests.support.moving_world import (
    T0,
    T1,
    World,
    assert_clean,
    build_kafka,
    build_move,
    build_world,
    one_move,
    two_batches,
    until_copying,
)


def test_a_move_runs_behind_its_throttles_and_leaves_none() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    found = world.run()
    assert (found.reason, found.percent, found.state) == (Reason.MOVED, 100, RunState.FINISHED)
    assert kafka.partition(T0).replicas == [3]
    kinds = [type(step) for step in kafka.calls]
    begun = kinds.index(Reassign)
    assert set(kinds[:begun]) == {SetRate, AddEntries}
    assert kafka.calls[begun] == Reassign(T0, (3,))
    assert not kafka.unthrottled
    assert_clean(kafka)


def test_only_what_moves_is_throttled() -> None:
    kafka, move = one_move(min_isr=2)
    world = build_world([move], kafka=kafka)
    until_copying(world)
    assert kafka.topics["t"].lists == {"follower": ["0:3"], "leader": ["0:1", "0:2"]}
    assert {broker: sorted(own.rates) for broker, own in kafka.brokers.items()} == {
        1: [LEADER_RATE],
        2: [],
        3: [FOLLOWER_RATE],
    }


def test_throttles_follow_a_leader_that_changes() -> None:
    kafka, move = one_move(min_isr=2)
    kafka.topics["t"].min_isr = 1
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.kill(1)
    world.turn()
    assert kafka.brokers[2].rates == {LEADER_RATE: 10 * MB}


def test_foreign_throttles_and_entries_stay() -> None:
    kafka, move = one_move()
    kafka.brokers[2].rates[LEADER_RATE] = 5
    kafka.topics["t"].lists = {"leader": ["7:2"]}
    world = build_world([move], kafka=kafka)
    assert world.run().reason is Reason.MOVED
    assert kafka.brokers[2].rates == {LEADER_RATE: 5}
    assert kafka.topics["t"].lists == {"leader": ["7:2"]}


def test_no_batch_begins_under_a_foreign_throttle() -> None:
    kafka, move = one_move()
    kafka.brokers[3].rates[FOLLOWER_RATE] = 5
    world = build_world([move], kafka=kafka)
    world.run(lambda found: found.reason is Reason.THROTTLE_OVERRIDDEN)
    assert not kafka.calls
    kafka.brokers[3].rates.clear()
    assert world.run().reason is Reason.MOVED


def test_a_foreign_throttle_of_the_same_value_is_used_and_stays() -> None:
    kafka, move = one_move()
    kafka.brokers[3].rates[FOLLOWER_RATE] = 20 * MB
    world = build_world([move], kafka=kafka, settings=MoveSettings(bytes_per_second=20 * MB))
    assert world.run().reason is Reason.MOVED
    assert kafka.brokers[3].rates == {FOLLOWER_RATE: 20 * MB}
    assert DropRate(3, FOLLOWER_RATE) not in kafka.calls


def test_an_overridden_throttle_is_told_and_left_alone() -> None:
    world = two_batches()
    until_copying(world)
    world.kafka.brokers[3].rates[FOLLOWER_RATE] = 33 * MB
    world.run(lambda found: found.reason is Reason.THROTTLE_OVERRIDDEN)
    for _ in range(120):
        world.turn()
    assert world.kafka.partition(T0).replicas == [3]
    assert not world.kafka.partition(T1).adding, "no new batch"
    assert world.kafka.brokers[3].rates == {FOLLOWER_RATE: 33 * MB}
    assert not world.kafka.brokers[1].rates, "ours is gone"
    world.kafka.brokers[3].rates.clear()
    assert world.run().reason is Reason.MOVED


def test_a_throttle_that_somebody_removed_is_set_again_and_told() -> None:
    world = two_batches()
    until_copying(world)
    world.kafka.brokers[3].rates.clear()
    world.turn()
    assert world.kafka.brokers[3].rates == {FOLLOWER_RATE: 10 * MB}
    assert world.seen[-1].reason is Reason.THROTTLE_OVERRIDDEN
    assert world.run().reason is Reason.MOVED


def copy_for(world: World, seconds: int) -> None:
    until_copying(world)
    for _ in range(seconds):
        world.turn()


def test_throttled_replicas_that_somebody_removed_are_listed_again_and_told() -> None:
    world = two_batches()
    copy_for(world, 12)
    lists = dict(world.kafka.topics["t"].lists)
    removed = world.kafka.now
    world.kafka.topics["t"].lists.clear()
    world.turn()
    assert world.kafka.topics["t"].lists == lists
    assert world.seen[-1].reason is Reason.THROTTLE_OVERRIDDEN
    assert "leader.replication.throttled.replicas of t lost 0:1" in world.seen[-1].message
    world.run(lambda _: bool(world.kafka.partition(T1).adding))
    assert world.kafka.now - removed > 25, "no new batch before it has been quiet"
    assert world.run().reason is Reason.MOVED
    assert_clean(world.kafka)


def test_a_list_that_a_late_broker_does_not_tell_yet_is_not_taken_for_removed() -> None:
    world = two_batches()
    copy_for(world, 2)
    world.kafka.topics["t"].lists.clear()
    world.run()
    assert Reason.THROTTLE_OVERRIDDEN not in {found.reason for found in world.seen}


def test_the_lists_of_a_topic_that_was_made_again_were_not_removed() -> None:
    world = two_batches()
    copy_for(world, 12)
    world.kafka.delete_topic("t")
    world.kafka.add_topic("t", [[1], [1]], [MB, MB])
    world.run()
    assert Reason.THROTTLE_OVERRIDDEN not in {found.reason for found in world.seen}


def test_the_throttle_of_a_dead_broker_goes_when_it_is_back() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.kill(3)
    found = world.run(lambda found: found.state is not RunState.RUNNING)
    world.turn()
    assert not found.over
    assert [rate.broker for rate in world.journaled.rates] == [3]
    kafka.revive(3)
    assert world.run().over
    assert_clean(kafka)


def lose_receiver() -> World:
    """A run that has ended but for the throttle of a receiver that died."""
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.kill(3)
    world.run(lambda found: found.state is not RunState.RUNNING)
    return world


def test_a_broker_that_stays_away_is_waited_for_a_minute_and_told() -> None:
    world = lose_receiver()
    ended = world.kafka.now
    found = world.run()
    assert 55 < world.kafka.now - ended < 65
    assert not found.clean
    assert "throttles of brokers [3] remain until they are back" in found.message


def test_a_throttle_that_was_waited_for_in_vain_still_goes_when_its_broker_is_back() -> None:
    world = lose_receiver()
    world.run()
    assert [rate.broker for rate in world.journaled.rates] == [3]
    world.kafka.revive(3)
    world.run(lambda found: found.clean)
    assert_clean(world.kafka)


def test_a_broker_that_stays_away_does_not_keep_the_next_plan_open() -> None:
    world = lose_receiver()
    world.run()
    world.plan = approve_batches("next", [[build_move(world.kafka, T0, [2])]])
    found = world.run(lambda found: found.plan == world.plan.id and found.over)
    assert found.reason is Reason.MOVED
    assert [rate.broker for rate in world.journaled.rates] == [3], "not forgotten"


def test_throttles_of_a_broker_that_is_there_and_does_not_answer_are_waited_for() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.blind.add(3)
    world.run(lambda found: found.state is not RunState.RUNNING)
    for _ in range(100):
        world.turn()
    assert not world.seen[-1].over
    kafka.blind.clear()
    assert world.run().clean


def test_a_fixed_throttle_below_the_write_rate_is_refused() -> None:
    kafka, move = one_move()
    settings = MoveSettings(bytes_per_second=MB, write_rates={T0: 1.0 * MB})
    world = build_world([move], kafka=kafka, settings=settings)
    world.run(lambda found: found.reason is Reason.THROTTLE_TOO_LOW)
    assert not kafka.calls


@pytest.mark.parametrize("fixed", [20 * MB, None])
@pytest.mark.parametrize(("broker", "key"), [(1, LEADER_RATE), (3, FOLLOWER_RATE)])
def test_a_throttle_of_the_cluster_below_the_write_rate_is_told(
    broker: int, key: str, fixed: int | None
) -> None:
    kafka, move = one_move()
    plan = approve_batches("plan", [[move]])
    settings = MoveSettings(bytes_per_second=fixed, write_rates={T0: 2.0 * MB})
    rates = {one: BrokerRates(inherited={key: MB} if one == broker else {}) for one in (1, 3)}
    seen = replace(kafka.look(find_needed(plan, None)), rates=rates)
    verdict = decide(plan, None, Watch(), seen, settings).verdict
    assert verdict.reason is Reason.THROTTLE_TOO_LOW
    assert verdict.message == "producers write 2000000 B/s to what would be copied at 1000000 B/s"


def test_a_throttle_of_the_cluster_above_the_write_rate_is_no_obstacle() -> None:
    kafka, move = one_move()
    plan = approve_batches("plan", [[move]])
    rates = {one: BrokerRates(inherited={LEADER_RATE: 3 * MB}) for one in (1, 3)}
    seen = replace(kafka.look(find_needed(plan, None)), rates=rates)
    settings = MoveSettings(write_rates={T0: 2.0 * MB})
    assert decide(plan, None, Watch(), seen, settings).verdict.reason is Reason.MOVING


def test_the_throttle_doubles_while_nobody_suffers_and_halves_when_somebody_does() -> None:
    kafka = build_kafka(gigabytes=100)
    kafka.add_topic("t", [[1]], [30 * GB])
    kafka.waits = Waits(2.0, 10.0)
    world = build_world([build_move(kafka, T0, [3])], kafka=kafka)
    world.run(lambda found: found.bytes_per_second == 40 * MB, seconds=200)
    assert kafka.brokers[3].rates == {FOLLOWER_RATE: 40 * MB}
    kafka.waits = Waits(2.0, 25.0)
    world.run(lambda found: found.bytes_per_second == 10 * MB, seconds=60)
    world.turn()
    assert kafka.brokers[1].rates == {LEADER_RATE: 10 * MB}


def test_a_keeper_that_was_restarted_knows_how_long_producers_waited_before() -> None:
    kafka = build_kafka(gigabytes=100)
    kafka.add_topic("t", [[1]], [30 * GB])
    kafka.waits = Waits(2.0, 10.0)
    world = build_world([build_move(kafka, T0, [3])], kafka=kafka)
    world.run(lambda found: found.bytes_per_second == 40 * MB, seconds=200)
    kafka.waits = Waits(2.0, 25.0)
    world.restart()
    world.run(lambda found: found.bytes_per_second == 10 * MB, seconds=60)


def test_what_is_not_held_up_by_the_throttle_does_not_raise_it() -> None:
    kafka, move = one_move()
    world = build_world([move], kafka=kafka)
    until_copying(world)
    kafka.isolated = {3}
    for _ in range(200):
        world.turn()
    assert world.seen[-1].bytes_per_second == 10 * MB


def test_replicas_that_were_behind_before_do_not_slow_a_batch_down() -> None:
    kafka = build_kafka(gigabytes=100)
    kafka.add_topic("t", [[1]], [10 * GB])
    kafka.add_topic("u", [[3, 2]], [MB])
    kafka.partition(("u", 0)).isr = {2}
    kafka.partition(("u", 0)).copies[3] = ("/d0", 0.0)
    kafka.isolated = {2}
    world = build_world([build_move(kafka, T0, [3])], kafka=kafka, settings=MoveSettings(patience_seconds=30))
    world.run(lambda found: found.reason is Reason.REPLICAS_OUT_OF_SYNC)
    world.run(lambda found: found.bytes_per_second > 10 * MB, seconds=200)
