"""A keyed bijection of 0..n-1 that is computed per position, without a table of n entries.

Construction: a Feistel network over the next even number of bits (Luby and Rackoff 1988), cycle-walked
into 0..n-1 (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"), with the finaliser of
SplitMix64 (Steele, Lea and Flood 2014) as round function. It shuffles well; it is no cipher.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

ROUNDS = 8
"""Twice what Luby and Rackoff ask for: the halves of small domains have few bits."""

_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)


class Permutation:
    """Bijection of 0..size-1 chosen by a text key.

    Args:
        size: number of positions, at least 1.
        key: any text; equal keys give equal bijections on every machine.
    """

    def __init__(self, size: int, key: str) -> None:
        if size < 1:
            raise ValueError(f"size = {size}, at least 1")
        self._size = np.uint64(size)
        self._half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        self._keys = np.frombuffer(hashlib.sha512(key.encode()).digest(), dtype="<u8").astype(np.uint64)

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Images of `positions` (any shape, each in 0..size-1)."""
        values = self._encrypt(positions.astype(np.uint64))
        outside = values >= self._size
        while outside.any():  # the domain is less than 4 * size: under 4 rounds on average
            values[outside] = self._encrypt(values[outside])
            outside = values >= self._size
        return values.astype(np.int64)

    def _encrypt(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        for key in self._keys[:ROUNDS]:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return (left << self._half) | right


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLY_1
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLY_2
    return values ^ (values >> np.uint64(31))
