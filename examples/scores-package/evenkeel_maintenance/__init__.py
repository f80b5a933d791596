"""Maintenance: new bytes keep away from brokers that are about to be stopped.

    k_leader = strength on the brokers named, 0 elsewhere
    k_follower = strength / 2 on the brokers named, 0 elsewhere

Parameters: brokers (required, ids separated by commas), strength (0 to 100, default 10: like 2 % of fill).
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.planning.scores.parameters import check_names, read_number, read_words
from evenkeel.planning.scores.protocol import Costs
from evenkeel.reasons import Reason

NAME = "Maintenance"


def maintenance(snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:  # noqa: ARG001
    """A cost per broker as leader and as follower.

    Raises:
        InputError: a parameter is unknown, missing or out of bounds, or names a broker that there is not.
    """
    check_names(NAME, parameters, ("brokers", "strength"))
    strength = read_number(NAME, parameters, "strength", 10.0, least=0, most=100)
    ids = {str(broker.id): broker.id for broker in snapshot.brokers}
    named = read_words(NAME, parameters, "brokers")
    for word in named:
        if word not in ids:
            what = f"score {NAME}: parameter brokers: there is no broker {word}; known are {', '.join(ids)}"
            raise InputError(what, reason=Reason.SCORE_INVALID)
    return Costs(
        leader={number: strength if word in named else 0.0 for word, number in ids.items()},
        follower={number: strength / 2 if word in named else 0.0 for word, number in ids.items()},
    )
