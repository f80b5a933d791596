"""`kubectl evenkeel COMMAND`: as kubectl's plugins are called. Exit codes are those of `evenkeel`.

Everything goes through the API server with the rights of who calls; Kafka is never asked.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evenkeel import __version__
from evenkeel.cli.main import REFUSED, run_command

if TYPE_CHECKING:
    from evenkeel.cli.kubectl.screen import Screen
    from evenkeel.cli.kubectl.session import Session

PROGRAM = "kubectl evenkeel"
MANAGER = "kubectl-evenkeel"
DECISIONS = {
    "approve": "let a plan run",
    "reject": "turn down a plan that waits",
    "cancel": "stop a plan that was approved; moves under way are cancelled where that is safe",
}
STATES = {
    "pause": ("Paused", "measure a cluster and do nothing else"),
    "resume": ("Active", "end a pause"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 done, 1 failure, 2 bad input, 3 refused for a reason."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    return run_command(lambda: _start(options), options.command, "control", PROGRAM)


def _start(options: argparse.Namespace) -> int:
    from evenkeel.cli.kubectl.screen import Screen
    from evenkeel.cli.kubectl.session import RefusedError

    try:
        return asyncio.run(_connect(options, Screen.open()))
    except RefusedError as error:
        sys.stderr.write(f"{PROGRAM}: {error.message} ({error.reason})\n")
        return REFUSED


async def _connect(options: argparse.Namespace, screen: Screen) -> int:
    from evenkeel.cli.kubectl.session import Session
    from evenkeel.kube.kubeconfig import connect_user

    access = await connect_user(options.kubeconfig, options.context, manager=MANAGER)
    try:
        session = Session(access.kube, options.namespace or access.namespace)
        return await run(session, screen, options, datetime.now(UTC))
    finally:
        await access.kube.close()


async def run(session: Session, screen: Screen, options: argparse.Namespace, now: datetime) -> int:
    """The command that `options` name; returns its exit code.

    Raises:
        RefusedError: it is not done, for a reason.
        EvenkeelError: as every call of `Session`.
    """
    if options.command in DECISIONS:
        from evenkeel.cli.kubectl.decide import Wish, decide

        return await decide(session, screen, Wish(options.command), options.plan, yes=options.yes, now=now)
    if options.command in STATES:
        from evenkeel.api.meta import State
        from evenkeel.cli.kubectl.pause import set_state

        return await set_state(session, screen, options.cluster, State(STATES[options.command][0]))
    if options.command == "plan":
        from evenkeel.cli.kubectl.plan import show_plan

        return await show_plan(session, screen, options.cluster, options.output, options.plot)
    from evenkeel.cli.kubectl.status import show_status

    return await show_status(session, screen, options.cluster, watch=options.watch)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Words as options; ends the process with code 2 where they are wrong."""
    access = _access()
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Plans that level the disks of Kafka clusters."
    )
    parser.add_argument("--version", action="version", version=f"kubectl-evenkeel {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    about_cluster = {"nargs": "?", "metavar": "CLUSTER", "help": "a BalancedCluster; default: the only one"}
    plan = commands.add_parser("plan", parents=[access], help="show the open plan of a cluster")
    plan.add_argument("cluster", **about_cluster)  # type: ignore[arg-type]
    plan.add_argument("-o", "--output", choices=["table", "json", "yaml"], default="table")
    plan.add_argument("--plot", metavar="FILE.svg", help="draw every volume before and after into this file")
    for name, what in DECISIONS.items():
        decision = commands.add_parser(name, parents=[access], help=what)
        decision.add_argument(
            "plan", nargs="?", metavar="PLAN", help="a RebalancePlan; default: the open one"
        )
        decision.add_argument("-y", "--yes", action="store_true", help="do not ask")
    for name, (_, what) in STATES.items():
        commands.add_parser(name, parents=[access], help=what).add_argument("cluster", **about_cluster)  # type: ignore[arg-type]
    status = commands.add_parser("status", parents=[access], help="show a cluster, its volumes and its plan")
    status.add_argument("cluster", **about_cluster)  # type: ignore[arg-type]
    status.add_argument(
        "-w", "--watch", action="store_true", help="follow the open plan until it is finished"
    )
    return parser.parse_args(arguments)


def _access() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-n", "--namespace", help="default: that of the context")
    parser.add_argument("--context", help="of the kubeconfig; default: the current one")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: KUBECONFIG, else ~/.kube/config")
    return parser


if __name__ == "__main__":
    sys.exit(main())
