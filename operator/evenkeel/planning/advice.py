"""What a plan says in words: what routing does for the fullest volume, and what would let it do more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.planning.program import Columns, Program
from evenkeel.planning.space import Floats
from evenkeel.reasons import Reason

CAP_COST = 0.005
"""Caps that cost more fill than this are named in the message; so is what inflow cannot level."""
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Fills:
    """Fill of the fullest volume under four sets of shares, and of the mean volume."""

    predicted: float
    optimal: float
    uncapped: float
    uniform: float
    mean: float

    @property
    def caps_cost(self) -> float:
        """How much fuller the caps leave the fullest volume than it need be."""
        return self.optimal - self.uncapped


def describe(columns: Columns, binding: Sequence[str], fills: Fills, program: Program) -> tuple[Reason, str]:
    """Reason and sentence of a topic that is routed with weights that stand at the caps `binding`."""
    text = (
        f"the fullest volume is expected at {fills.predicted:.1%}; possible is {fills.optimal:.1%}, "
        f"without routing {fills.uniform:.1%}"
    )
    if fills.caps_cost > CAP_COST:
        text += f"; caps cost {fills.caps_cost:.1%} (binding: {', '.join(binding[:3]) or 'of another topic'})"
        if any("leader" in name for name in binding):
            text += f", more partitions led by the emptier brokers would bring it to {fills.uncapped:.1%}"
    if fills.uncapped - fills.mean > CAP_COST:
        text += (
            f"; what is to come is too little to level the disks (mean {fills.mean:.1%}): about "
            f"{_missing(fills, program) / GIB:.3g} GiB more would do, or moves (evenkeel plan moves)"
        )
    if columns.relaxed > 1.0:
        text += (
            f"; caps are impossible with these leaders and were raised by the factor {columns.relaxed:.2f}"
        )
        return Reason.CAPS_RELAXED, text
    return Reason.ROUTED, text


def _missing(fills: Fills, program: Program) -> float:
    """Bytes before replication until all volumes could stand where the fullest one would without caps."""
    copies = sum(topic.steerable * topic.on_volume.sum() / len(topic.open) for topic in program.columns)
    replication = float(copies) / sum(topic.steerable for topic in program.columns)
    return (fills.uncapped - fills.mean) * float(program.capacity.sum()) / max(1.0, replication)


def find_binding(columns: Columns, share: Floats) -> list[str]:
    """Caps of this topic that its weights stand at."""
    full = np.flatnonzero(columns.caps @ share >= columns.limits * 0.999)
    names = [columns.cap_names[row] for row in full.tolist()]
    if bool(np.any(share >= columns.highest * 0.999)):
        names.append("highest share of a partition")
    if bool(np.any(share <= columns.lowest * 1.001)):
        names.append("lowest share of a partition")
    return names
