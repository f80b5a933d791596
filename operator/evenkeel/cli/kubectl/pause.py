"""`kubectl evenkeel pause|resume`: `spec.state` of a BalancedCluster."""

from __future__ import annotations

from evenkeel.api.meta import State
from evenkeel.cli.kubectl.screen import Screen
from evenkeel.cli.kubectl.session import Session
from evenkeel.cli.main import OK

_TOLD = {
    State.PAUSED: "paused: it is measured and nothing else; a batch of moves that is under way is finished",
    State.ACTIVE: "active: it is routed, plans are made, and an approved one goes on",
}


async def set_state(session: Session, screen: Screen, name: str | None, wanted: State) -> int:
    """Write it where it is not so already; returns the exit code.

    Raises:
        InputError: there is no such cluster.
    """
    cluster = await session.find_cluster(name)
    already = cluster.spec.state is wanted
    if not already:
        await session.write_state(cluster, wanted.value)
    screen.say(f"BalancedCluster {cluster.metadata.name} is {'already ' if already else ''}{_TOLD[wanted]}")
    return OK
