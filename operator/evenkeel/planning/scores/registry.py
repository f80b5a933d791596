"""The built-in scores by name. Packages add their own by the entry point group `evenkeel.scores`."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.planning.scores import data_distribution, node_load, rack_locality, storage, write_latency
from evenkeel.planning.scores.protocol import ScoreFunction

GROUP = "evenkeel.scores"
"""Entry point group of packages with scores of their own; the entry's name is the score's name."""

BUILT_IN: Mapping[str, ScoreFunction] = {
    storage.NAME: storage.storage,
    data_distribution.NAME: data_distribution.data_distribution,
    node_load.NAME: node_load.node_load,
    write_latency.NAME: write_latency.write_latency,
    rack_locality.NAME: rack_locality.rack_locality,
}
"""A package cannot replace one of these."""
