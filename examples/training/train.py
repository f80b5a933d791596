"""One rank of a small data-parallel training: a softmax classifier on images of a mounted dataset.

Every record that the rank reads is entered into a ledger, one JSON line per epoch in the log, so that
anybody can check that all ranks together saw each record once per epoch. Records whose SHA-256 of
`_id` is 0 modulo 5 are held out: read and entered, but not trained on.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evenkeel.reader import Batch, Dataset

HELD_OUT_MODULUS = 5
TERMINATION_LOG = Path("/dev/termination-log")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Softmax:
    """Multinomial logistic regression by gradient descent."""

    def __init__(self, features: int, classes: int) -> None:
        self._weights = np.zeros((features + 1, classes))

    def fit(self, inputs: Floats, labels: Integers, rate: float) -> None:
        """One step on a batch; `rate` is what the gradient of each record counts."""
        errors = self._probabilities(inputs)
        errors[np.arange(len(labels)), labels] -= 1
        self._weights -= rate * _with_bias(inputs).T @ errors

    def score(self, inputs: Floats, labels: Integers) -> float:
        """Share of `labels` that are predicted right."""
        return float((self._probabilities(inputs).argmax(axis=1) == labels).mean())

    def _probabilities(self, inputs: Floats) -> Floats:
        logits = _with_bias(inputs) @ self._weights
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: Floats = powers / powers.sum(axis=1, keepdims=True)
        return probabilities


def main() -> int:
    """Train, print the ledger, and leave count, digest and accuracy as the termination message."""
    # As the first process of a container Python would ignore it, and every deletion take half a minute.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = parse_arguments()
    rank = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    dataset = Dataset(
        arguments.data, batch_size=arguments.batch, rank=rank, world_size=world, seed=arguments.seed
    )
    result = train(dataset, rank, arguments.epochs, arguments.rate)
    text = json.dumps({"rank": rank, "digest": dataset.digest, **result})
    print(text, flush=True)
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(text)
    return 0


def train(dataset: Dataset, rank: int, epochs: int, rate: float) -> dict[str, int | float | str]:
    """Train for `epochs` -> records read, digest over their ids in order, held-out accuracy."""
    model: Softmax | None = None
    held: dict[str, tuple[Floats, int]] = {}
    ids: list[str] = []
    count, total = 0, hashlib.sha256()
    for batch in dataset.batches(epochs):
        names, inputs, labels = decode(batch)
        model = model or Softmax(inputs.shape[1], classes=len(dataset.class_names))
        out = np.array([is_held_out(name) for name in names], dtype=bool)
        held.update({names[i]: (inputs[i], int(labels[i])) for i in np.flatnonzero(out)})
        # Smaller and smaller steps: the last ones, on few records, would undo a good part of the others.
        done = batch.epoch * dataset.steps_per_epoch + batch.step
        pace = rate * (1 - done / (epochs * dataset.steps_per_epoch))
        model.fit(inputs[~out], labels[~out], pace * batch.scale / len(batch.mask))
        ids.extend(names)
        if batch.step == dataset.steps_per_epoch - 1:
            print(json.dumps({"ledger": {"rank": rank, "epoch": batch.epoch, "ids": ids}}), flush=True)
            total.update("\n".join(ids).encode())
            count, ids = count + len(ids), []
    accuracy = 0.0
    if model is not None and held:
        examples, answers = zip(*held.values(), strict=True)
        accuracy = model.score(np.stack(examples), np.array(answers))
    return {"records": count, "ledgerDigest": total.hexdigest(), "heldOut": len(held), "accuracy": accuracy}


def decode(batch: Batch) -> tuple[list[str], Floats, Integers]:
    """Ids, pixels in 0..1 (one row per image) and labels of the batch's real records."""
    rows = batch.rows.filter(batch.mask)
    images = [
        np.asarray(Image.open(io.BytesIO(item["bytes"])).convert("L")) for item in rows["image"].to_pylist()
    ]
    pixels = np.stack(images).reshape(len(images), -1) / 255 if images else np.zeros((0, 64))
    return rows["_id"].to_pylist(), pixels, rows["label"].to_numpy()


def is_held_out(name: str) -> bool:
    """Whether a record is for testing only; a function of its id, so that all ranks and runs agree."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % HELD_OUT_MODULUS == 0


def parse_arguments() -> argparse.Namespace:
    """Command line of a rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("/data"), help="mounted revision")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32, help="records per rank and step")
    parser.add_argument(
        "--rate", type=float, default=2.0, help="first step of the gradient descent; shrinks to 0"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of records; equal on all ranks")
    return parser.parse_args()


def _with_bias(inputs: Floats) -> Floats:
    return np.hstack((inputs, np.ones((len(inputs), 1))))


if __name__ == "__main__":
    sys.exit(main())
