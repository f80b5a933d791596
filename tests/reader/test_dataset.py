from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from evenkeel.domain.revision import Shard
from evenkeel.errors import DataError, InputError
from evenkeel.format.shards import MANIFEST_NAME, shard_name
from evenkeel.reader import Batch, Dataset, Tail
from evenkeel.reader import revision as reader
from tests.support.images import CLASSES, write_revision

SHARDS = [[3, 4], [5], [2, 2, 2]]
RECORDS = 18


@pytest.fixture
def revision(tmp_path: Path) -> Path:
    write_revision(tmp_path, SHARDS)
    return tmp_path


def ids(batches: Iterable[Batch]) -> list[str]:
    return [name for batch in batches for name in batch.rows.filter(batch.mask)["_id"].to_pylist()]


def all_ids(records: int = RECORDS) -> Counter[str]:
    return Counter(f"{number}.0" for number in range(records))


@pytest.mark.parametrize("tail", [Tail.MASK, Tail.SHORT])
@pytest.mark.parametrize("world", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("batch", [1, 4, 7, 100])
def test_ranks_together_see_each_record_once_per_epoch(
    revision: Path, tail: Tail, world: int, batch: int
) -> None:
    ranks = [Dataset(revision, batch_size=batch, rank=i, world_size=world, tail=tail) for i in range(world)]
    assert sum((Counter(ids(rank.batches(1))) for rank in ranks), Counter()) == all_ids()


@pytest.mark.parametrize("tail", list(Tail))
def test_all_ranks_take_equally_many_steps(revision: Path, tail: Tail) -> None:
    ranks = [Dataset(revision, batch_size=2, rank=i, world_size=5, tail=tail) for i in range(5)]
    steps = {len(list(rank.batches(1))) for rank in ranks}
    assert steps == {ranks[0].steps_per_epoch}


def test_masked_tail_keeps_every_batch_full(revision: Path) -> None:
    ranks = [Dataset(revision, batch_size=4, rank=i, world_size=3) for i in range(3)]
    assert {len(batch.mask) for rank in ranks for batch in rank.batches(2)} == {4}


def test_scaled_and_masked_mean_over_ranks_is_the_mean_over_records(revision: Path) -> None:
    ranks = [Dataset(revision, batch_size=4, rank=i, world_size=3) for i in range(3)]
    for step in zip(*(rank.batches(1) for rank in ranks), strict=True):
        losses = [np.array([float(name.split(".")[0]) for name in b.rows["_id"].to_pylist()]) for b in step]
        parts = [b.scale * (b.mask * loss).sum() / len(b.mask) for b, loss in zip(step, losses, strict=True)]
        real = np.concatenate([loss[b.mask] for b, loss in zip(step, losses, strict=True)])
        assert np.mean(parts) == pytest.approx(real.mean())


def test_drop_leaves_out_the_incomplete_step(revision: Path) -> None:
    ranks = [Dataset(revision, batch_size=4, rank=i, world_size=2, tail=Tail.DROP) for i in range(2)]
    seen = Counter(name for rank in ranks for name in ids(rank.batches(1)))
    assert sum(seen.values()) == 16
    assert max(seen.values()) == 1


def test_epochs_have_different_orders(revision: Path) -> None:
    batches = list(Dataset(revision, batch_size=RECORDS).batches(2))
    assert ids(batches[:1]) != ids(batches[1:])


def test_rows_are_the_records_of_their_ids(revision: Path) -> None:
    for batch in Dataset(revision, batch_size=5).batches(1):
        for row in batch.rows.filter(batch.mask).to_pylist():
            number = int(row["_id"].split(".")[0])
            assert row["image"] == {"bytes": f"image {number}".encode(), "path": f"{number}.png"}
            assert row["label"] == number % len(CLASSES)


def test_deleted_rows_are_never_delivered(tmp_path: Path) -> None:
    write_revision(tmp_path, SHARDS, deleted={0: [0, 6], 2: [5]})
    dataset = Dataset(tmp_path, batch_size=4)
    assert len(dataset) == 15
    gone = {"0.0", "6.0", "17.0"}
    assert Counter(ids(dataset.batches(1))) == Counter(set(all_ids()) - gone)


@pytest.mark.parametrize("stop_after", [1, 2, 3, 5])
@pytest.mark.parametrize("worlds", [(2, 3), (3, 1), (1, 4)])
def test_state_resumes_exactly_at_any_world_size(
    revision: Path, stop_after: int, worlds: tuple[int, int]
) -> None:
    before, after = worlds
    seen: Counter[str] = Counter()
    state = None
    for i in range(before):
        rank = Dataset(revision, batch_size=2, rank=i, world_size=before)
        stream = rank.batches(2)
        for batch, _ in zip(stream, range(stop_after), strict=False):
            seen.update(ids([batch]))
            state = rank.state()
    assert state is not None
    for i in range(after):
        rank = Dataset(revision, batch_size=2, rank=i, world_size=after)
        rank.restore(state)
        seen.update(ids(rank.batches(2)))
    assert seen == all_ids() + all_ids()


def test_state_of_another_revision_is_refused(revision: Path) -> None:
    dataset = Dataset(revision, batch_size=2)
    with pytest.raises(InputError, match=r"state\.digest is 'other'"):
        dataset.restore({**dataset.state(), "digest": "other"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size = 0, must be at least 1"),
        ({"rank": 2, "world_size": 2}, "rank = 2, must be 0 to 1"),
        ({"world_size": 0}, "world_size = 0, must be at least 1"),
        ({"block": 0}, "block = 0, must be at least 1"),
    ],
)
def test_arguments_out_of_bounds_name_field_value_and_limit(
    revision: Path, change: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Dataset(revision, **{"batch_size": 1, **change})  # type: ignore[arg-type]  # a table of arguments


def test_a_folder_without_a_revision_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no revision"):
        Dataset(tmp_path, batch_size=1)


def test_another_digest_than_agreed_is_refused(revision: Path) -> None:
    with pytest.raises(DataError, match="is meant"):
        Dataset(revision, batch_size=1, digest="0" * 64)


def test_a_changed_byte_is_shard_corrupt_before_any_record(revision: Path) -> None:
    path = revision / shard_name(1)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="shard 1 has digest"):
        list(Dataset(revision, batch_size=RECORDS).batches(1))


def test_a_missing_shard_is_said(revision: Path) -> None:
    (revision / shard_name(2)).unlink()
    with pytest.raises(DataError, match="shard 2 cannot be read"):
        list(Dataset(revision, batch_size=RECORDS).batches(1))


def test_a_shard_that_a_scrub_takes_out_meanwhile_is_said(
    revision: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = reader._verify

    def take_out(path: Path, shard: Shard) -> None:
        verify(path, shard)
        path.unlink()

    monkeypatch.setattr(reader, "_verify", take_out)
    with pytest.raises(DataError, match="cannot be mapped"):
        list(Dataset(revision, batch_size=RECORDS).batches(1))


def test_class_names_come_from_the_schema(revision: Path) -> None:
    assert Dataset(revision, batch_size=1).class_names == CLASSES


def test_a_changed_manifest_is_another_digest(revision: Path) -> None:
    before = Dataset(revision, batch_size=1).digest
    path = revision / MANIFEST_NAME
    path.write_bytes(path.read_bytes().replace(b'"seed":1', b'"seed":2'))
    assert Dataset(revision, batch_size=1).digest != before
