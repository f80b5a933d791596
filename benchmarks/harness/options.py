"""What the command lines of the benchmarks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from scripts.provision import cache

Choice = TypeVar("Choice")

PYTHON_PATH: Mapping[str, str] = {"PYTHONPATH": f"{cache.REPOSITORY}:{cache.REPOSITORY / 'operator'}"}
"""Environment of a child process that runs a module of this repository."""


def choose(option: str, known: Mapping[str, Choice], names: Sequence[str]) -> tuple[Choice, ...]:
    """Those of `known` that are named, all where none is, in the order of `known`.

    Raises:
        SystemExit: an unknown name.
    """
    if unknown := set(names) - known.keys():
        raise SystemExit(f"{option}: {sorted(unknown)} unknown; known are {', '.join(known)}")
    return tuple(one for name, one in known.items() if not names or name in names)
