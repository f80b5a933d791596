from __future__ import annotations

import base64
import dataclasses
from pathlib import Path

import pytest

from evenkeel.domain.job import ProducerSettings
from evenkeel.domain.journal import PLAN_SLICE, Entry, Lost, Reopen, encode, parse
from evenkeel.errors import InputError
from evenkeel.ingest import worker as worker_module
from evenkeel.ingest.plan import Layout, build_layout
from evenkeel.ingest.sealer import Sealed, verify
from evenkeel.ingest.sources import Listing
from evenkeel.ingest.worker import STALE_SECONDS, Step
from evenkeel.kafka.clients.append import UnknownOutcomeError
from evenkeel.reasons import Reason
from tests.support.ingest import DATASET, Running, World, build_settings, write_images

RECORDS = 36


@pytest.fixture
def world(tmp_path: Path) -> World:
    write_images(tmp_path, 3, RECORDS // 3)
    return World(build_settings(tmp_path))


def finish(run: Running) -> None:
    for _ in range(500):
        if run.worker.step() is Step.DONE:
            return
    raise AssertionError("not done")


def work_until_written(run: Running, world: World, messages: int) -> None:
    while sum(map(len, world.data.partitions)) < messages:
        assert run.worker.step() is Step.WORKED


def written(world: World) -> int:
    return sum(map(len, world.data.partitions))


def test_one_worker_writes_every_message_once(world: World) -> None:
    finish(world.start(0))
    state = world.journal.fold()
    assert (state.acknowledged_records, state.open_slices()) == (RECORDS, ())
    assert written(world) == len(list(state.entries()))
    assert not state.claims


def test_two_workers_share_the_slices(world: World) -> None:
    one, two = world.start(0), world.start(1)
    while one.worker.step() is not Step.DONE:
        two.worker.step()
    finish(two)
    attempts = {parse(value).attempt for value in world.journal.values if isinstance(parse(value), Entry)}  # type: ignore[union-attr]
    assert len(attempts) == world.journal.fold().planned_slices
    assert world.journal.fold().acknowledged_records == RECORDS


def test_a_restarted_worker_takes_its_slice_back_at_once_and_writes_only_what_is_missing(
    world: World,
) -> None:
    first = world.start(0)
    work_until_written(first, world, 3)
    second = world.start(0)
    finish(second)
    assert world.clock.now == 0
    assert world.journal.fold().acknowledged_records == RECORDS
    # All that had arrived was found again; only the two in flight at the death were written anew.
    assert written(world) == len(list(world.journal.fold().entries()))


def test_a_message_that_arrived_unseen_is_found_not_written_again(world: World) -> None:
    run = world.start(0)
    work_until_written(run, world, 1)
    run.outbox.fault = "written"
    with pytest.raises(UnknownOutcomeError):
        finish(run)
    run.worker.reset()
    finish(run)
    assert written(world) == len(list(world.journal.fold().entries()))


def test_a_message_that_arrives_after_the_search_is_a_duplicate_nobody_refers_to(world: World) -> None:
    run = world.start(0)
    work_until_written(run, world, 1)
    run.outbox.fault = "late"
    with pytest.raises(UnknownOutcomeError):
        finish(run)
    run.worker.reset()
    finish(run)
    world.data.write(*world.data.late[0])
    state = world.journal.fold()
    assert state.acknowledged_records == RECORDS
    assert written(world) > len(list(state.entries()))


def test_messages_of_a_plan_that_is_gone_are_never_taken_for_ours(world: World) -> None:
    """The journal topic was made anew: slices, numbers and schema agree, the records do not."""
    finish(world.start(0))
    world.journal.values.clear()
    changed = dataclasses.replace(world.settings, seed=99)
    first = world.start(0, changed)
    while not world.journal.fold().acknowledged_records:
        assert first.worker.step() is Step.WORKED
    finish(world.start(0, changed))
    state = world.journal.fold()
    assert state.plan is not None
    schema = base64.b64decode(state.plan.schema)
    result = verify(state, state.plan, DATASET.uid, schema, 10**6, world.data.read)
    assert isinstance(result, Sealed)
    assert result.manifest.records == RECORDS


def test_planning_takes_no_time_between_claim_and_plan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the planners of a large source take the plan from each other for ever."""
    claimed: list[bool] = []

    def build(listing: Listing, settings: ProducerSettings) -> Layout:
        claimed.append(bool(world.journal.values))
        return build_layout(listing, settings)

    monkeypatch.setattr(worker_module, "build_layout", build)
    finish(world.start(0))
    assert claimed == [False]


def test_a_live_workers_slice_is_respected_until_it_falls_silent(world: World) -> None:
    silent = world.start(1)
    work_until_written(silent, world, 1)
    (held,) = world.journal.fold().claims
    other = world.start(0)
    while other.worker.step() is Step.WORKED:
        pass
    assert world.journal.fold().open_slices() == (held,)
    world.clock.now += STALE_SECONDS + 1
    finish(other)
    assert silent.worker.step() is Step.DONE
    assert world.journal.fold().acknowledged_records == RECORDS


def test_a_zombie_does_not_take_back_what_its_successor_claimed(world: World) -> None:
    zombie = world.start(0)
    work_until_written(zombie, world, 1)
    successor = world.start(0)
    work_until_written(successor, world, 4)
    (number,) = world.journal.fold().claims
    assert zombie.worker.step() is Step.WORKED
    finish_or_wait(zombie)
    assert world.journal.fold().slices[number].claim is not None
    finish(successor)
    assert world.journal.fold().acknowledged_records == RECORDS


def finish_or_wait(run: Running) -> None:
    while run.worker.step() is Step.WORKED:
        pass


def test_a_released_slice_is_free_at_once(world: World) -> None:
    run = world.start(0)
    work_until_written(run, world, 2)
    run.worker.release()
    assert not world.journal.fold().claims
    finish(world.start(1))
    assert written(world) == len(list(world.journal.fold().entries()))


def test_a_round_looks_only_for_what_may_be_there_unjournaled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each slice of a large dataset would be looked for in the whole topic."""
    finish(world.start(0))
    entries = list(world.journal.fold().entries())
    lost = tuple(Lost(item.slice, item.first) for item in entries)
    world.journal.values.append(encode(Reopen(1, tuple({item.slice for item in lost}), lost)))
    scans: list[dict[int, int]] = []
    scan = world.data.scan
    monkeypatch.setattr(world.data, "scan", lambda starts: scans.append(starts) or scan(starts))
    run = world.start(0)
    while written(world) < len(entries) + 2:
        assert run.worker.step() is Step.WORKED
    assert scans == []
    finish(world.start(0))
    assert len(scans) == 1, "the slice of the worker that died"
    assert world.journal.fold().acknowledged_records == RECORDS


def test_a_worker_that_sees_another_source_stops(world: World, tmp_path: Path) -> None:
    first = world.start(0)
    work_until_written(first, world, 1)
    (tmp_path / "class-00" / "new.png").write_bytes(b"x")
    with pytest.raises(InputError) as caught:
        finish(world.start(1))
    assert caught.value.reason is Reason.SOURCE_CHANGED


def test_the_plan_wins_over_settings_that_changed_since(world: World) -> None:
    first = world.start(0)
    work_until_written(first, world, 1)
    changed = dataclasses.replace(world.settings, seed=99, message_records=1, slice_bytes=1)
    finish(world.start(0, changed))
    assert world.journal.fold().acknowledged_records == RECORDS


def test_a_planner_that_dies_is_replaced(world: World) -> None:
    planner = world.start(1)
    planner.log.before = lambda: None
    planner.log.fault = "written"
    with pytest.raises(UnknownOutcomeError):
        planner.worker.step()
    assert PLAN_SLICE in world.journal.fold().claims
    other = world.start(0)
    assert other.worker.step() is Step.WAITING
    world.clock.now += STALE_SECONDS + 1
    finish(other)
    assert world.journal.fold().acknowledged_records == RECORDS


def test_late_routes_are_said_and_do_not_stop_the_ingest(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run = world.start(0)
    run.outbox.routes = False
    finish(run)
    assert caplog.text.count("RoutesLate") == 1
