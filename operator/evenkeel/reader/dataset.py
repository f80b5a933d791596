"""Batches of a revision for one rank of a data-parallel training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenkeel.domain.revision import Manifest
from evenkeel.errors import InputError
from evenkeel.reader.order import EpochOrder, Places, rank_positions
from evenkeel.reader.revision import LocalRevision
from evenkeel.reasons import Reason

STATE_VERSION = 1


class Tail(StrEnum):
    """What the last step of an epoch does when the records do not fill all ranks' batches."""

    MASK = "Mask"
    """Filler rows make every batch full; `Batch.mask` and `Batch.scale` leave them out exactly."""
    SHORT = "Short"
    """Batches are shorter, on some ranks perhaps empty."""
    DROP = "Drop"
    """The incomplete step is left out; the records differ from epoch to epoch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one rank trains on in one step.

    For a loss that is averaged over ranks use `scale * sum(mask * losses) / len(mask)`: the average over
    ranks is then the mean over the step's real records, also in the last step.
    """

    epoch: int
    step: int
    """Step within the epoch, 0, 1, ...; equal for all ranks."""
    rows: pa.Table
    """The records; column `_id` names each."""
    mask: NDArray[np.bool_]
    """One per row; False marks filler."""
    scale: float
    """World size times batch size over the real records of this step of all ranks; 1 but in the last step."""


class Dataset:
    """A revision as one rank sees it.

    Args:
        path: folder of a revision (`manifest.json` and its shards), as the node cache mounts it.
        batch_size: rows per batch and rank, at least 1.
        rank: of this process, 0..world_size-1.
        world_size: number of ranks, at least 1.
        seed: of the order; all ranks must use one.
        tail: what to do with an incomplete last step.
        block: records permuted together, see EpochOrder.
        digest: the revision that all ranks agreed on; None takes the one at `path`.

    Raises:
        InputError: an argument is out of bounds, or no revision lies at `path`.
        DataError: the revision is not the one of `digest`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        tail: Tail = Tail.MASK,
        block: int | None = None,
        digest: str | None = None,
    ) -> None:
        _require("batch_size", batch_size, 1, None)
        _require("world_size", world_size, 1, None)
        _require("rank", rank, 0, world_size - 1)
        if block is not None:
            _require("block", block, 1, None)
        self._revision = LocalRevision(Path(path), digest)
        self._batch, self._rank, self._world = batch_size, rank, world_size
        self._seed, self._tail, self._block = seed, tail, block
        self._epoch, self._index = 0, 0

    @property
    def digest(self) -> str:
        """Name of the revision: SHA-256 hex of its content manifest."""
        return self._revision.digest

    @property
    def manifest(self) -> Manifest:
        """Content of the revision."""
        return self._revision.manifest

    @property
    def schema(self) -> pa.Schema:
        """Columns of every batch."""
        return self._revision.schema

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes that `label` numbers; empty where the source had none."""
        stored = (self.schema.metadata or {}).get(b"huggingface", b"{}")
        features = json.loads(stored).get("info", {}).get("features", {})
        return tuple(features.get("label", {}).get("names", ()))

    def __len__(self) -> int:
        """Live records of the revision: what all ranks together see in an epoch."""
        return sum(self._revision.live)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of a whole epoch, equal for all ranks."""
        whole, rest = divmod(len(self), self._step_records)
        return whole + (1 if rest and self._tail is not Tail.DROP else 0)

    def batches(self, epochs: int) -> Iterator[Batch]:
        """Batches from the current state to the end of epoch number `epochs` - 1.

        The state moves on when a batch is asked for after the one before: a checkpoint taken while a
        batch is in use says that this batch has been delivered.

        Raises:
            DataError: a shard is not what the manifest says; no record of it is delivered.
        """
        while self._epoch < epochs:
            order = EpochOrder(
                self._revision.live,
                digest=self.digest,
                seed=self._seed,
                epoch=self._epoch,
                block=self._block,
            )
            while self._index < self._end:
                batch = self._read(order)
                self._index = min(self._index + self._step_records, len(self))
                yield batch
            self._epoch, self._index = self._epoch + 1, 0

    def state(self) -> dict[str, int | str]:
        """The position after the last delivered batch; store it inside the model's checkpoint.

        It does not depend on rank or world size.
        """
        return {
            "version": STATE_VERSION,
            "digest": self.digest,
            "seed": self._seed,
            "epoch": self._epoch,
            "index": self._index,
        }

    def restore(self, state: Mapping[str, int | str]) -> None:
        """Go on after the batch with which `state` was taken, at this world size.

        Raises:
            InputError: the state is of another revision or seed, or its position is out of bounds.
        """
        for name, wanted in (("version", STATE_VERSION), ("digest", self.digest), ("seed", self._seed)):
            if state.get(name) != wanted:
                message = f"state.{name} is {state.get(name)!r}, this dataset has {wanted!r}"
                raise InputError(message, reason=Reason.INVALID_SPEC)
        epoch, index = state.get("epoch"), state.get("index")
        _require("state.epoch", epoch, 0, None)
        _require("state.index", index, 0, len(self))
        self._epoch, self._index = int(epoch or 0), int(index or 0)

    @property
    def _step_records(self) -> int:
        return self._batch * self._world

    @property
    def _end(self) -> int:
        whole = len(self) - (len(self) - self._index) % self._step_records
        return whole if self._tail is Tail.DROP else len(self)

    def _read(self, order: EpochOrder) -> Batch:
        end = min(self._index + self._step_records, len(self))
        positions = rank_positions(self._index, end, self._rank, self._world)
        real = len(positions)
        if self._tail is Tail.MASK and real < self._batch:
            # Filler repeats the step's first record: a rank without a record of its own has something to take.
            filler = np.full(self._batch - real, self._index, dtype=np.int64)
            positions = np.concatenate((positions, filler))
        return Batch(
            epoch=self._epoch,
            step=self._index // self._step_records,
            rows=self._gather(order.locate(positions)),
            mask=np.arange(len(positions)) < real,
            scale=self._step_records / (end - self._index),
        )

    def _gather(self, places: Places) -> pa.Table:
        parts, order = [], []
        for shard in np.unique(places.shards):
            chosen = np.flatnonzero(places.shards == shard)
            parts.append(self._revision.take(int(shard), places.rows[chosen]))
            order.append(chosen)
        if not parts:
            return self._revision.take(0, places.rows)
        back = np.argsort(np.concatenate(order), kind="stable")
        return pa.concat_tables(parts).take(pa.array(back)).combine_chunks()


def _require(name: str, value: object, lowest: int, highest: int | None) -> None:
    good = isinstance(value, int) and value >= lowest and (highest is None or value <= highest)
    if not good:
        limits = f"at least {lowest}" if highest is None else f"{lowest} to {highest}"
        raise InputError(f"{name} = {value!r}, must be {limits}", reason=Reason.INVALID_SPEC)
