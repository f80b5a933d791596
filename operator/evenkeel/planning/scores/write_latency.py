"""WriteLatency: brokers that answer writes slowly should get less.

    d_b = how many times the round trip of broker b is the double of the median broker's
    k_leader = strength x d_b
    k_follower = strength x d_b / 2 with acks all, 0 with acks leader

Round trips are those that the routers' own producers saw (`roundTripMs`, the mean of the newest minute), so
they hold everything a writer waits for. d_b begins a quarter above or below the median, for equal brokers
differ so much from minute to minute, and ends at 3. `strength` is 2.5 for each doubling beyond: twice the
latency costs 1.7, like 0.34 % of fill, and takes four fifths off a weight; three times takes it to the lowest
share that a partition may have. With acks=all a leader waits for its followers: a slow one costs too, but only
half, since the leader's own round trip has that wait in it already. A broker that no router writes to has no
round trip and counts like the median one: it is tried again.

Parameters: strength (0 to 20), acks (`all` or `leader`, default all).
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.planning.scores.parameters import check_names, read_number
from evenkeel.planning.scores.protocol import Costs
from evenkeel.planning.scores.relative import doublings, nothing_known, read_load
from evenkeel.reasons import Reason

NAME = "WriteLatency"
STRENGTH = 2.5
FOLLOWER_PART = 0.5
LEAST_BROKERS = 2


def write_latency(snapshot: ClusterSnapshot, topic: str, parameters: Mapping[str, str], /) -> Costs:  # noqa: ARG001
    """A cost per broker as leader and, with acks all, as follower; no unit.

    Raises:
        InputError: a parameter is unknown or out of bounds.
        RetryableError: the round trips of fewer than two brokers are known.
    """
    check_names(NAME, parameters, ("strength", "acks"))
    strength = read_number(NAME, parameters, "strength", STRENGTH, least=0, most=20)
    acks = parameters.get("acks", "all")
    if acks not in ("all", "leader"):
        what = f"score {NAME}: parameter acks must be all or leader, not {acks!r}"
        raise InputError(what, reason=Reason.SCORE_INVALID)
    trips = read_load(snapshot, "roundTripMs")
    if len(trips) < LEAST_BROKERS:
        raise nothing_known(NAME, "no routers report round trips of two brokers or more")
    far = {broker.id: 0.0 for broker in snapshot.brokers} | doublings(trips)
    leader = {broker: strength * distance for broker, distance in far.items()}
    follower = {broker: FOLLOWER_PART * cost for broker, cost in leader.items()} if acks == "all" else {}
    return Costs(leader=leader, follower=follower)
