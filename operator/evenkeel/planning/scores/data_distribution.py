"""DataDistribution: the topic's partitions should hold equally many bytes.

    k_p = strength x clip(size_p / mean size - 1, -1, 2)

Readers that take one partition each (data-parallel ranks, consumer groups) end together only where partitions
are equal; level disks alone do not give that. `strength` is 2 by default: an empty partition gets e^2 = 7.4
times the share of one of mean size, which is near the highest share that the bounds allow, and the whole
counts like 0.4 % of fill: it decides among disks that are level within the slack, and yields where they are
not. A partition above three times the mean is as dear as it gets: its share is at the lowest bound by then.
The size is that of the largest replica; where it is unknown the partition counts as one of mean size.

Parameters: strength, 0 to 20.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.planning.scores.parameters import check_names, read_number
from evenkeel.planning.scores.protocol import Costs

NAME = "DataDistribution"
STRENGTH = 2.0
LOWEST, HIGHEST = -1.0, 2.0


def data_distribution(snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:
    """A cost per partition, no unit.

    Raises:
        InputError: a parameter is unknown or out of bounds.
    """
    check_names(NAME, parameters, ("strength",))
    strength = read_number(NAME, parameters, "strength", STRENGTH, least=0, most=20)
    sizes = {
        partition.partition: max(partition.replica_bytes.values(), default=None)
        for partition in snapshot.partitions
        if partition.topic == topic
    }
    known = [size for size in sizes.values() if size is not None]
    mean = fmean(known) if known else 0.0
    if mean == 0:
        return Costs()
    return Costs(
        partition={
            number: 0.0 if size is None else strength * min(HIGHEST, max(LOWEST, size / mean - 1))
            for number, size in sizes.items()
        }
    )
