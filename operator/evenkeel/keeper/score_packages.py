"""Scores of installed packages: entry points of the group `evenkeel.scores`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from evenkeel.planning.scores.protocol import ScoreFunction
from evenkeel.planning.scores.registry import GROUP


def find_packaged() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Score name -> the entry points of that name; more than one where packages collide."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry not in found.get(entry.name, ()):
            found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def load_packaged(name: str) -> ScoreFunction:
    """Import the one score of this name; runs the package's code, so only in the score's own process.

    Raises:
        LookupError: no package or more than one has it.
        TypeError: it is not a function.
        Exception: whatever importing it raises.
    """
    entries = find_packaged().get(name, ())
    if len(entries) != 1:
        raise LookupError(f"{len(entries)} installed packages have a score {name}")
    score = entries[0].load()
    if not callable(score):
        raise TypeError(f"{entries[0].value} is not a function")
    found: ScoreFunction = score
    return found
