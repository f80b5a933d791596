from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evenkeel.domain.moves import Move, MoveKind
from evenkeel.kafka.answers import BrokerRates, PartitionAnswer, ReassignmentAnswer, TopicAnswer
from evenkeel.kafka.wire import DIRECTORY_RATE, FOLLOWER_RATE, LEADER_RATE
from evenkeel.keeper.moving.observation import Observation
from evenkeel.keeper.moving.run import OwnEntry, OwnRate, Run
from evenkeel.keeper.moving.steps import AddEntries, DropEntries, DropRate, SetRate
from evenkeel.keeper.moving.throttling import Throttles, find_wanted, plan_throttles

MOVE = Move("t", 0, (1, 2), (3, 2), 10, copied_to=3, copied_from=1)
LOCAL = Move("t", 1, (1,), (1,), 10, "/b", MoveKind.DIRECTORY, 1, 1)
NOTHING = Throttles({}, frozenset())


def look(
    rates: dict[int, BrokerRates] | None = None, lists: dict[str, dict[str, str]] | None = None
) -> Observation:
    rows = (PartitionAnswer(0, 2, (1, 2), (1, 2)), PartitionAnswer(1, 1, (1,), (1,)))
    return Observation(
        at=0.0,
        cluster_id="c",
        online=frozenset({1, 2, 3}),
        reassignments={},
        topics={"t": TopicAnswer("t", "id", internal=False, partitions=rows)},
        lists=lists if lists is not None else {"t": {}},
        rates=rates if rates is not None else {broker: BrokerRates() for broker in (1, 2, 3)},
    )


def test_who_sends_now_and_who_may_later() -> None:
    found = find_wanted([MOVE, LOCAL], look(), 7)
    assert found.rates == {(2, LEADER_RATE): 7, (3, FOLLOWER_RATE): 7, (1, DIRECTORY_RATE): 7}
    assert {(one.role, one.entry) for one in found.entries} == {
        ("follower", "0:3"),
        ("leader", "0:1"),
        ("leader", "0:2"),
    }


def test_a_replica_that_is_added_is_throttled_until_it_is_there() -> None:
    rows = (PartitionAnswer(0, 1, (1, 2, 3), (1, 2)),)
    topics = {"t": TopicAnswer("t", "id", internal=False, partitions=rows)}
    copying = {("t", 0): ReassignmentAnswer((1, 2, 3), (3,), ())}
    added = Move("t", 0, (1, 2), (1, 2, 3), 10, kind=MoveKind.ADD, copied_to=3, copied_from=1)
    seen = replace(look(), topics=topics, reassignments=copying)
    assert find_wanted([added], seen, 7).rates == {(1, LEADER_RATE): 7, (3, FOLLOWER_RATE): 7}
    assert len(find_wanted([added], seen, 7).entries) == 3
    there = replace(seen, reassignments={})
    assert find_wanted([added], there, 7).entries == frozenset()


def test_a_limit_of_the_cluster_holds_for_us_too() -> None:
    inherited = BrokerRates(inherited={FOLLOWER_RATE: 3})
    found = find_wanted([MOVE], look({2: BrokerRates(), 3: inherited}), 7)
    assert found.rates == {(2, LEADER_RATE): 7, (3, FOLLOWER_RATE): 3}


def test_entries_of_others_are_neither_ours_nor_removed() -> None:
    wanted = find_wanted([MOVE], look(), 7)
    shown = look(lists={"t": {"leader": "0:1,5:2", "follower": "*"}})
    found = plan_throttles(Run("p"), wanted, shown)
    assert found.entries == (OwnEntry("t", "leader", "0:2"),)
    assert [step for step in found.begin if isinstance(step, AddEntries)] == [
        AddEntries("t", "leader", ("0:2",))
    ]
    later = look(lists={"t": {"leader": "0:1,5:2,0:2"}})
    end = plan_throttles(Run("p", entries=found.entries), NOTHING, later)
    assert end.end == (DropEntries("t", "leader", ("0:2",), whole=False),)


def test_a_value_that_replaces_ours_is_committed_beside_it() -> None:
    own = (OwnRate(3, FOLLOWER_RATE, (5,)),)
    wanted = Throttles({(3, FOLLOWER_RATE): 10}, frozenset())
    before = plan_throttles(Run("p", rates=own), wanted, look({3: BrokerRates({FOLLOWER_RATE: 5})}))
    assert before.rates == (OwnRate(3, FOLLOWER_RATE, (5, 10)),)
    assert before.begin == (SetRate(3, FOLLOWER_RATE, 10),)
    for value in (5, 10):  # whether or not the call came through, it is ours
        shown = look({3: BrokerRates({FOLLOWER_RATE: value})})
        assert plan_throttles(Run("p", rates=before.rates), NOTHING, shown).end == (
            DropRate(3, FOLLOWER_RATE),
        )


def test_a_broker_that_does_not_tell_keeps_its_place_in_the_journal() -> None:
    own = (OwnRate(3, FOLLOWER_RATE, (5,)),)
    found = plan_throttles(Run("p", rates=own), NOTHING, look({1: BrokerRates()}))
    assert (found.rates, found.end) == (own, ())


def test_nothing_is_begun_while_a_throttle_is_not_there() -> None:
    wanted = find_wanted([MOVE], look(), 7)
    assert not plan_throttles(Run("p"), wanted, look()).ready
    assert not plan_throttles(Run("p"), wanted, look({1: BrokerRates()})).ready
    assert not plan_throttles(Run("p"), wanted, look(lists={})).ready


VALUES = st.none() | st.integers(1, 4)


@given(shown=VALUES, own=st.none() | st.lists(st.integers(1, 4), min_size=1, max_size=2), wanted=VALUES)
def test_only_values_of_ours_are_changed_or_removed(
    shown: int | None, own: list[int] | None, wanted: int | None
) -> None:
    key = (3, FOLLOWER_RATE)
    rates = () if own is None else (OwnRate(*key, tuple(own)),)
    asked = Throttles({} if wanted is None else {key: wanted}, frozenset())
    seen = look({3: BrokerRates({} if shown is None else {FOLLOWER_RATE: shown})})
    found = plan_throttles(Run("p", rates=rates), asked, seen)
    steps = (*found.begin, *found.end)
    foreign = shown is not None and (own is None or shown not in own)
    assert not (foreign and steps)
    for step in steps:
        if isinstance(step, SetRate):
            assert found.rates
            assert step.value in found.rates[0].values
    assert found.ready == (shown == wanted or wanted is None or (not foreign and shown is not None))
    if wanted is None:
        assert (DropRate(*key) in steps) == (shown is not None and not foreign)


def test_while_an_answer_is_lost_values_of_before_stay_ours() -> None:
    own = (OwnRate(3, FOLLOWER_RATE, (5, 10)),)
    wanted = Throttles({(3, FOLLOWER_RATE): 10}, frozenset())
    shown = look({3: BrokerRates({FOLLOWER_RATE: 10})})
    doubtful = plan_throttles(Run("p", rates=own), wanted, shown, doubtful=True)
    assert doubtful.rates == own
    assert plan_throttles(Run("p", rates=own), wanted, shown).rates == (OwnRate(3, FOLLOWER_RATE, (10,)),)
    gone = look({3: BrokerRates()})
    assert plan_throttles(Run("p", rates=own), NOTHING, gone, doubtful=True).rates == own
    assert plan_throttles(Run("p", rates=own), NOTHING, gone).rates == ()
