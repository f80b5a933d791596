"""RackLocality: leaders where the producers are, so that writes do not cross racks or zones.

    k_leader = 0 in the racks named, strength elsewhere

Only leaders count: producers talk to them alone, and followers must be elsewhere anyway. `strength` is 2.5,
like 0.5 % of fill: among level disks a partition led elsewhere gets a twelfth of the share of one led here
(as far as the caps on brokers allow), and one per cent of fill outweighs it. A broker whose rack is unknown is
elsewhere.

Parameters: rack (required; several separated by commas), strength (0 to 100).
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.planning.scores.parameters import check_names, read_number, read_words
from evenkeel.planning.scores.protocol import Costs
from evenkeel.reasons import Reason

NAME = "RackLocality"
STRENGTH = 2.5
SHOWN = 8
"""Racks that a message names."""


def rack_locality(snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:  # noqa: ARG001
    """A cost per broker as leader, no unit.

    Raises:
        InputError: a parameter is unknown, missing or out of bounds, or no broker is in such a rack.
    """
    check_names(NAME, parameters, ("rack", "strength"))
    racks = read_words(NAME, parameters, "rack")
    strength = read_number(NAME, parameters, "strength", STRENGTH, least=0, most=100)
    known = sorted({broker.rack for broker in snapshot.brokers if broker.rack is not None})
    for rack in racks:
        if rack not in known:
            there = ", ".join(known[:SHOWN]) or "none"
            what = f"score {NAME}: parameter rack: no broker is in rack {rack}; known are {there}"
            raise InputError(what, reason=Reason.SCORE_INVALID)
    return Costs(leader={broker.id: 0.0 if broker.rack in racks else strength for broker in snapshot.brokers})
