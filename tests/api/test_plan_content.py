from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.api.plan_content import PEAKS_IN_ALL, build_spec, read_batches
from evenkeel.api.rebalance_plan import MOVES_LIMIT, PEAKS_LIMIT, RebalancePlan, RebalancePlanSpec
from evenkeel.domain.moves import Approval, Batch, Move, MoveKind, VolumeFill, VolumePeak
from evenkeel.errors import InputError
from evenkeel.names import dataset_topic
from evenkeel.reasons import Reason
from tests.support.plans import BATCHES, proposed, written

EXPIRES = datetime(2026, 1, 2, tzinfo=UTC)
ETCD_LIMIT = 2**20
OWNED = dataset_topic("uid", "data")


def stored(spec: RebalancePlanSpec) -> RebalancePlanSpec:
    """After the way to the API server and back."""
    return RebalancePlanSpec.model_validate(json.loads(json.dumps(spec.dump())))


def test_what_was_proposed_is_what_runs() -> None:
    spec = stored(build_spec(proposed(), "kafka", EXPIRES))
    assert read_batches(spec) == BATCHES
    assert (spec.approval, spec.expiration_time) == (Approval.PENDING, EXPIRES)
    assert spec.plan_hash == proposed().hash


BROKERS = st.lists(st.integers(0, 2**31 - 1), min_size=3, max_size=5, unique=True)


@st.composite
def moves(draw: st.DrawFn) -> Move:
    first, second, third, *_ = draw(BROKERS)
    size = draw(st.integers(0, 2**53 - 1))
    kind = draw(st.sampled_from(MoveKind))
    source, target = {
        MoveKind.BROKER: ((first, second), (second, third)),
        MoveKind.DIRECTORY: ((first, second), (first, second)),
        MoveKind.ADD: ((first,), (third, first)),
        MoveKind.REMOVE: ((first, second), (second,)),
    }[kind]
    copied_to = {MoveKind.DIRECTORY: first, MoveKind.REMOVE: None}.get(kind, third)
    return Move(
        topic=draw(st.from_regex(r"[a-zA-Z0-9.-][a-zA-Z0-9._-]{0,80}", fullmatch=True)),
        partition=draw(st.integers(0, 10_000)),
        source=source,
        target=target,
        bytes=0 if kind is MoveKind.REMOVE else size,
        target_dir="/data" if kind is MoveKind.DIRECTORY else None,
        kind=kind,
        copied_to=copied_to,
        freed_on=first if kind in (MoveKind.BROKER, MoveKind.REMOVE) else None,
        freed_bytes=size,
        freed_after_ms=draw(st.integers(0, 10**6)) * 1000,
        topic_id=draw(st.none() | st.just("AAAAAAAAAAAAAAAAAAAAAQ")),
    )


@given(st.lists(st.lists(moves(), min_size=1, max_size=4), min_size=1, max_size=4))
def test_any_moves_come_back_as_they_went(groups: list[list[Move]]) -> None:
    numbers = iter(range(100))
    batches = tuple(
        Batch(number, tuple(replace(move, partition=next(numbers)) for move in group), 3.0, 0)
        for number, group in enumerate(groups)
    )
    wanted = tuple(replace(one, bytes=sum(move.bytes for move in one.moves)) for one in batches)
    assert read_batches(stored(build_spec(proposed(batches=batches), "kafka", EXPIRES))) == wanted


def large() -> tuple[Batch, ...]:
    """As many moves as a plan may have, each in a batch of its own that touches many volumes."""
    peaks = tuple(VolumePeak(f"{broker}:/var/lib/kafka/data-{broker}", 10**13, 0.8) for broker in range(64))
    topic = "t" * 249
    return tuple(
        Batch(number, (Move(topic, number, (1, 2, 3), (4, 2, 3), 10**13, "/d" * 128, copied_to=4,
                            copied_from=1, freed_on=1, freed_dir="/e" * 128, freed_bytes=10**13,
                            topic_id="A" * 22),), 60.0,
              10**13, peaks)
        for number in range(MOVES_LIMIT)
    )  # fmt: skip


def test_largest_plan_fits_into_etcd_twice() -> None:
    fills = tuple(
        VolumeFill(f"{broker}:/var/lib/kafka/data-{broker}", 999, 999, 999) for broker in range(600)
    )
    spec = build_spec(proposed(batches=large(), fills=fills), "kafka", EXPIRES)
    assert len(json.dumps(spec.dump())) < ETCD_LIMIT * 0.75
    assert sum(len(batch.peaks) for batch in spec.batches) <= PEAKS_IN_ALL
    assert len(spec.fills) == 512


def test_fullest_volumes_are_those_that_a_batch_lists() -> None:
    peaks = tuple(VolumePeak(f"{broker}:/d", broker, broker / 100) for broker in range(20))
    batch = replace(BATCHES[0], peaks=peaks)
    shown = build_spec(proposed(batches=(batch,)), "kafka", EXPIRES).batches[0].peaks
    assert [peak.permille for peak in shown] == [190, 180, 170, 160, 150, 140, 130, 120]
    assert len(shown) == PEAKS_LIMIT


def test_proposal_that_does_not_fit_is_refused_by_field() -> None:
    move = replace(BATCHES[0].moves[0], target_dir="/d" * 200)
    with pytest.raises(InputError, match=r"proposed plan: targetDir") as refusal:
        build_spec(proposed(batches=(replace(BATCHES[0], moves=(move,)),)), "kafka", EXPIRES)
    assert refusal.value.reason is Reason.INVALID_SPEC


def hand_made(*moves: dict[str, Any], **spec: Any) -> RebalancePlanSpec:
    plain = {"batch": 0, "topic": "orders", "partition": 0, "source": [1, 2], "target": [3, 2]}
    whole = [{**plain, "partition": number, **move} for number, move in enumerate(moves)]
    return RebalancePlan.model_validate(written("mine", moves=whole, **spec)).spec


def test_what_follows_from_source_and_target_need_not_be_written() -> None:
    (batch,) = read_batches(hand_made({"batch": 7, "bytes": 5}))
    assert (batch.number, batch.bytes, batch.moves[0].copied_to, batch.moves[0].freed_on) == (0, 5, 3, 1)


def test_batches_run_in_the_order_of_their_numbers() -> None:
    batches = read_batches(hand_made({"batch": 5}, {"batch": 2}, {"batch": 5}))
    assert [[move.partition for move in batch.moves] for batch in batches] == [[1], [0, 2]]


@pytest.mark.parametrize(
    ("move", "message"),
    [
        ({"source": [1, 1]}, "spec.moves[0].source: names a broker twice: [1, 1]"),
        ({"target": [3, 3]}, "spec.moves[0].target: names a broker twice: [3, 3]"),
        ({"topic": "__offsets"}, "spec.moves[0].topic: __offsets is internal to Kafka or Evenkeel: its replicas stay"),
        ({"topic": OWNED}, f"spec.moves[0].topic: {OWNED} belongs to a TrainingDataset: its replicas stay"),
        (
            {"target": [3, 4], "source": [1]},
            "spec.moves[0].target: a move of kind Broker adds 1 and takes away 1 replicas, not 2 and 1: [1] -> [3, 4]",
        ),
        (
            {"kind": "Add"},
            "spec.moves[0].target: a move of kind Add adds 1 and takes away 0 replicas, not 1 and 1: [1, 2] -> [3, 2]",
        ),
        ({"copiedTo": 2}, "spec.moves[0].copiedTo: must be broker 3 by source and target, not 2"),
        ({"freedOn": 2}, "spec.moves[0].freedOn: must be broker 1 by source and target, not 2"),
        (
            {"kind": "Directory", "target": [2, 1], "copiedTo": 1, "targetDir": "/d"},
            "spec.moves[0].target: must equal source, [1, 2], where only a directory changes",
        ),
        (
            {"kind": "Directory", "target": [1, 2], "copiedTo": 1},
            "spec.moves[0].targetDir: must be set where only a directory changes",
        ),
        (
            {"kind": "Directory", "target": [1, 2], "copiedTo": 3, "targetDir": "/d"},
            "spec.moves[0].copiedTo: must be one of [1, 2], whose directory changes, not 3",
        ),
        (
            {"kind": "Remove", "target": [2], "copiedTo": 1},
            "spec.moves[0].copiedTo: must be absent where nothing is copied, not 1",
        ),
    ],
)  # fmt: skip
def test_move_that_is_none_is_refused_by_field_and_value(move: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        read_batches(hand_made(move))
    assert refusal.value.message == message


def test_partition_that_moves_twice_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"spec\.moves\[1\]\.partition: orders-0 is in spec\.moves\[0\] already"
    ):
        read_batches(hand_made({}, {"partition": 0}))
