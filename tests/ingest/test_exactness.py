"""Random interleavings of workers, crashes and lies: every record sealed exactly once."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from evenkeel.domain.job import BadRecordPolicy, SealerSettings
from evenkeel.domain.journal import encode
from evenkeel.domain.revision import Manifest
from evenkeel.errors import RetryableError
from evenkeel.format import arrow
from evenkeel.format.shards import message_digest
from evenkeel.ingest.sealer import Sealed, build_seal, plan_reopen, verify
from evenkeel.ingest.worker import STALE_SECONDS, Step
from tests.support.ingest import DATASET, Running, World, build_settings, write_images

ROOT = Path(tempfile.mkdtemp(prefix="evenkeel-exactness-"))
CLASSES, PER_CLASS, BAD = 3, 11, 2
ROUNDS = SealerSettings(shard_bytes=2000, max_rounds=1000)
WORKERS = st.integers(0, 2)


@pytest.fixture(autouse=True, scope="module")
def source() -> None:
    write_images(ROOT, CLASSES, PER_CLASS)
    for number in range(BAD):
        (ROOT / "class-00" / f"bad-{number}.png").write_bytes(b"no image")


def advance(run: Running) -> Step:
    try:
        return run.worker.step()
    except RetryableError:
        run.worker.reset()
        return Step.WORKED


def seal(world: World) -> Sealed | None:
    """What the sealer job does, with the journal as it is."""
    state = world.journal.fold()
    assert state.plan is not None
    if state.open_slices():
        world.journal.values.append(encode(plan_reopen(state, ROUNDS)))
        return None
    schema = base64.b64decode(state.plan.schema)
    result = verify(state, state.plan, DATASET.uid, schema, ROUNDS.shard_bytes, world.data.read_or_fail)
    if isinstance(result, Sealed):
        return result
    world.journal.values.append(encode(plan_reopen(state, ROUNDS, result)))
    return None


def read_ids(world: World, sealed: Sealed) -> list[str]:
    """Ids of all records that the revision refers to, by way of its location table."""
    schema = base64.b64decode(sealed.manifest.schema)
    ids: list[str] = []
    for shard, place in zip(sealed.manifest.shards, sealed.shards, strict=True):
        for message, offset in zip(shard.messages, place.offsets, strict=True):
            (record,) = world.data.read(place.partition, offset, offset + 1)
            assert message_digest(record.value) == message.digest
            ids += arrow.decode(schema, record.value).column("_id").to_pylist()
    return ids


class Ingest(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.world = World(build_settings(ROOT, on_bad_record=BadRecordPolicy.QUARANTINE))
        self.running: dict[int, Running] = {index: self.world.start(index) for index in (0, 1)}

    @rule(index=WORKERS)
    def start(self, index: int) -> None:
        """A second process at an index is the zombie that a partitioned node leaves."""
        self.running[index] = self.world.start(index % 2)

    @rule(index=WORKERS, steps=st.integers(1, 8))
    def work(self, index: int, steps: int) -> None:
        run = self.running.setdefault(index, self.running.get(index) or self.world.start(index % 2))
        for _ in range(steps):
            advance(run)

    @rule(turns=st.lists(WORKERS, min_size=3, max_size=20))
    def work_in_turns(self, turns: list[int]) -> None:
        for index in turns:
            if index in self.running:
                advance(self.running[index])

    @rule(index=WORKERS, landed=st.integers(0, 3))
    def crash(self, index: int, landed: int) -> None:
        """Of what was in flight some has landed, the rest may land later or never."""
        run = self.running.pop(index, None)
        if run is None:
            return
        for place, (identity, _, value) in enumerate(run.outbox.waiting):
            if place < landed:
                self.world.data.write(identity, value)
            else:
                self.world.data.late.append((identity, value))

    @rule(index=WORKERS, fault=st.sampled_from(["written", "late", "lost"]))
    def data_fault(self, index: int, fault: str) -> None:
        if index in self.running:
            self.running[index].outbox.fault = fault

    @rule(index=WORKERS, fault=st.sampled_from(["refused", "written", "lost", "half"]))
    def journal_fault(self, index: int, fault: str) -> None:
        if index in self.running:
            self.running[index].log.fault = fault

    @rule(index=WORKERS)
    def release(self, index: int) -> None:
        run = self.running.pop(index, None)
        if run is not None:
            try:
                run.worker.release()
            except RetryableError:
                run.outbox.drop()

    @rule(seconds=st.sampled_from([1.0, STALE_SECONDS + 1]))
    def wait(self, seconds: float) -> None:
        self.world.clock.now += seconds

    @rule()
    def land(self) -> None:
        if self.world.data.late:
            self.world.data.write(*self.world.data.late.pop(0))

    @rule(partition=st.integers(0, 2), place=st.integers(0, 30))
    def destroy(self, partition: int, place: int) -> None:
        if place < len(self.world.data.partitions[partition]):
            self.world.data.destroyed.add((partition, place))

    @rule()
    def try_to_seal(self) -> None:
        if self.world.journal.fold().plan is not None:
            seal(self.world)

    @invariant()
    def what_counts_is_in_the_log(self) -> None:
        state = self.world.journal.fold()
        assert state.acknowledged_records == sum(entry.records for entry in state.entries())
        for entry in state.entries():
            record = self.world.data.partitions[entry.partition][entry.offset]
            assert message_digest(record.value) == entry.digest

    def teardown(self) -> None:
        """Whatever happened: one more worker after the last fault, and every record is there once."""
        sealed = None
        for _ in range(6):
            self.world.clock.now += STALE_SECONDS + 1
            last = self.world.start(0)
            for _ in range(400):
                self.world.clock.now += STALE_SECONDS
                if advance(last) is Step.DONE:
                    break
            else:
                raise AssertionError("the ingest does not end")
            sealed = seal(self.world)
            if sealed is not None:
                break
        assert sealed is not None
        check_complete(self.world, sealed)


def check_complete(world: World, sealed: Sealed) -> None:
    state = world.journal.fold()
    delivered = read_ids(world, sealed)
    rejected = [record.record_id for part in state.slices.values() for record in part.rejected.values()]
    expected = {f"{index}.0" for index in range(CLASSES * PER_CLASS + BAD)}
    assert len(delivered) == len(set(delivered)) == CLASSES * PER_CLASS
    assert len(rejected) == BAD
    assert set(delivered) | set(rejected) == expected
    manifest: Manifest = sealed.manifest
    state.apply(state.next_offset, build_seal(manifest, "0" * 64))
    assert state.seal is not None
    assert state.seal.records == len(delivered)


Ingest.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestIngest = Ingest.TestCase
