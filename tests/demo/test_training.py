from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from examples.training import train

EPOCHS, BATCH, RATE = 20, 32, 2.0
LEAST_ACCURACY = 0.90


@dataclass
class Step:
    """A batch of half the digits; the last one of an epoch has few records, each of great weight."""

    epoch: int
    step: int
    scale: float
    numbers: NDArray[np.int64]
    mask: NDArray[np.bool_] = field(default_factory=lambda: np.ones(BATCH, dtype=bool))


class Digits:
    """What a rank reads, in an order of its own."""

    def __init__(self, seed: int) -> None:
        found = load_digits()
        self.pixels, self.labels = found.data / 16, found.target
        self.class_names = [str(digit) for digit in range(10)]
        self._dice = np.random.default_rng(seed)
        self._records = len(self.labels) // 2
        self.steps_per_epoch = -(-self._records // BATCH)

    def batches(self, epochs: int) -> Iterator[Step]:
        for epoch in range(epochs):
            order = self._dice.permutation(len(self.labels))[: self._records]
            for step in range(self.steps_per_epoch):
                numbers = order[step * BATCH : (step + 1) * BATCH]
                yield Step(epoch, step, BATCH / len(numbers), numbers)


@pytest.mark.parametrize("seed", range(5))
def test_the_model_learns_whatever_the_order(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    digits = Digits(seed)

    def decode(batch: Any) -> tuple[list[str], NDArray[np.float64], NDArray[np.int64]]:
        names = [f"{number}.0" for number in batch.numbers]
        return names, digits.pixels[batch.numbers], digits.labels[batch.numbers]

    monkeypatch.setattr(train, "decode", decode)
    result = train.train(digits, 0, EPOCHS, RATE)  # type: ignore[arg-type]
    assert float(result["accuracy"]) >= LEAST_ACCURACY
    assert result["records"] == EPOCHS * (len(digits.labels) // 2)
