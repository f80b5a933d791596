"""Storage: what the fill of disks will be. Not a cost: its weight scales beta, the sharpness towards fills.

    beta_t = beta x weight / 100, at least 0.5

beta is 500 on a quiet cluster, where 1 % of fill changes a weight by exp(5). At weight 0, or where the score
is absent, fills count nothing among volumes that stay below the ceiling: the fullest volume may still not end
more than the cluster's slack above the optimum, and the caps of brokers and partitions hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.planning.scores.parameters import check_names
from evenkeel.planning.scores.protocol import Costs

NAME = "Storage"


def storage(snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:  # noqa: ARG001
    """No costs; see the module.

    Raises:
        InputError: it has no parameters.
    """
    check_names(NAME, parameters, ())
    return Costs()
