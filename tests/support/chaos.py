"""What can befall an ingest in memory, and the proof that every record is sealed exactly once."""

from __future__ import annotations

import base64
import random
from pathlib import Path

from evenkeel.domain.job import BadRecordPolicy, SealerSettings
from evenkeel.domain.journal import encode
from evenkeel.errors import RetryableError
from evenkeel.format import arrow
from evenkeel.format.shards import message_digest
from evenkeel.ingest.sealer import Sealed, build_seal, plan_reopen, verify
from evenkeel.ingest.worker import STALE_SECONDS, Step
from tests.support.ingest import DATASET, Running, World, build_settings, write_images

CLASSES, PER_CLASS, BAD = 3, 19, 3
SEALING = SealerSettings(shard_bytes=2000, max_rounds=1000)
INDEXES = (0, 1, 2)
"""Of processes; process 2 is a second one of worker 0, as a node that lost its network leaves it."""
DATA_FAULTS = ("written", "late", "lost")
JOURNAL_FAULTS = ("refused", "written", "lost", "half")


def write_source(root: Path) -> None:
    """Images in class folders, some of them none."""
    write_images(root, CLASSES, PER_CLASS)
    for number in range(BAD):
        (root / "class-00" / f"bad-{number}.png").write_bytes(b"no image")


class Chaos:
    """One dataset's ingest, step by step."""

    def __init__(self, root: Path) -> None:
        settings = build_settings(
            root, message_records=2, slice_bytes=2500, on_bad_record=BadRecordPolicy.QUARANTINE
        )
        self.world = World(settings)
        self.running: dict[int, Running] = {index: self.world.start(index) for index in (0, 1)}

    def start(self, process: int) -> None:
        self.running[process] = self.world.start(process % 2)

    def step(self, process: int) -> None:
        if process in self.running:
            self._advance(self.running[process])

    def crash(self, process: int, landed: int) -> None:
        """Of what was in flight `landed` messages have arrived; the rest may later, or never."""
        run = self.running.pop(process, None)
        for place, (identity, _, value) in enumerate(run.outbox.waiting if run else ()):
            if place < landed:
                self.world.data.write(identity, value)
            else:
                self.world.data.late.append((identity, value))

    def data_fault(self, process: int, fault: str) -> None:
        if process in self.running:
            self.running[process].outbox.fault = fault

    def journal_fault(self, process: int, fault: str) -> None:
        if process in self.running:
            self.running[process].log.fault = fault

    def interrupt(self, process: int, other: int, steps: int) -> None:
        """Another process takes over and works just before this one's next write to the journal."""

        def happen() -> None:
            self.wait(STALE_SECONDS + 1)
            for _ in range(steps if other != process else 0):
                self.step(other)

        if process in self.running:
            self.running[process].log.before = happen

    def release(self, process: int) -> None:
        run = self.running.pop(process, None)
        if run is None:
            return
        try:
            run.worker.release()
        except RetryableError:
            run.outbox.drop()

    def wait(self, seconds: float) -> None:
        self.world.clock.now += seconds

    def land(self) -> None:
        if self.world.data.late:
            self.world.data.write(*self.world.data.late.pop(0))

    def destroy(self, partition: int, place: int) -> None:
        if place < len(self.world.data.partitions[partition]):
            self.world.data.destroyed.add((partition, place))

    def seal(self) -> Sealed | None:
        """What the sealer job does with the journal as it is, less the seal record."""
        state = self.world.journal.fold()
        if state.plan is None:
            return None
        if state.open_slices():
            self.world.journal.values.append(encode(plan_reopen(state, SEALING)))
            return None
        schema = base64.b64decode(state.plan.schema)
        read = self.world.data.read
        result = verify(state, state.plan, DATASET.uid, schema, SEALING.shard_bytes, read)
        if isinstance(result, Sealed):
            return result
        self.world.journal.values.append(encode(plan_reopen(state, SEALING, result)))
        return None

    def check_entries(self) -> None:
        """What counts is in the log."""
        state = self.world.journal.fold()
        assert state.acknowledged_records == sum(entry.records for entry in state.entries())
        for entry in state.entries():
            record = self.world.data.partitions[entry.partition][entry.offset]
            assert message_digest(record.value) == entry.digest

    def finish(self) -> None:
        """No more faults: one more worker must bring every record home, once."""
        for _ in range(6):
            last = self.world.start(0)
            for _ in range(1000):
                self.world.clock.now += STALE_SECONDS
                if self._advance(last) is Step.DONE:
                    break
            else:
                raise AssertionError("the ingest does not end")
            sealed = self.seal()
            if sealed is not None:
                self._check_sealed(sealed)
                return
        raise AssertionError("the revision is never sealed")

    def play(self, seed: int, actions: int) -> None:
        """A schedule chosen by `seed`: mostly work, now and then anything."""
        dice = random.Random(seed)
        for _ in range(actions):
            process = dice.choice(INDEXES)
            if dice.random() < 0.6:
                for _ in range(dice.randint(1, 4)):
                    self.step(process)
                continue
            self._befall(dice, process)

    def _befall(self, dice: random.Random, process: int) -> None:
        match dice.randrange(12):
            case 0 | 1:
                self.crash(process, dice.randint(0, 3))
                self.start(process)
            case 2:
                self.data_fault(process, dice.choice(DATA_FAULTS))
            case 3:
                self.journal_fault(process, dice.choice(JOURNAL_FAULTS))
            case 4:
                self.release(process)
            case 5:
                self.wait(STALE_SECONDS + 1)
            case 6:
                self.land()
            case 7:
                self.destroy(dice.randrange(3), dice.randrange(12))
            case 8:
                self.start(process)
            case _:
                self.interrupt(process, dice.choice(INDEXES), dice.randint(1, 12))

    @staticmethod
    def _advance(run: Running) -> Step:
        try:
            return run.worker.step()
        except RetryableError:
            run.worker.reset()
            return Step.WORKED

    def _check_sealed(self, sealed: Sealed) -> None:
        state = self.world.journal.fold()
        delivered = self._read_ids(sealed)
        rejected = [record.record_id for part in state.slices.values() for record in part.rejected.values()]
        assert len(delivered) == len(set(delivered)) == CLASSES * PER_CLASS
        assert len(rejected) == len(set(rejected)) == BAD
        assert {*delivered, *rejected} == {f"{index}.0" for index in range(CLASSES * PER_CLASS + BAD)}
        state.apply(state.next_offset, build_seal(sealed.manifest, "0" * 64, state.round))
        assert state.seal is not None
        assert state.seal.records == len(delivered)

    def _read_ids(self, sealed: Sealed) -> list[str]:
        """Ids of all records that the revision refers to, by way of its location table."""
        schema = base64.b64decode(sealed.manifest.schema)
        ids: list[str] = []
        for shard, place in zip(sealed.manifest.shards, sealed.shards, strict=True):
            for message, offset in zip(shard.messages, place.offsets, strict=True):
                (record,) = self.world.data.read(place.partition, offset, offset + 1)
                assert message_digest(record.value) == message.digest
                ids += arrow.decode(schema, record.value).column("_id").to_pylist()
        return ids
