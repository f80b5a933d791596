"""`evenkeel plan routes` and `evenkeel plan moves`: plans from a snapshot file, without any cluster."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenkeel.cli.plan_file import SharedDir, list_shared_dirs, moves_list
from evenkeel.domain import codec
from evenkeel.domain.exchange import Policy, TopicRouting
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.errors import InputError
from evenkeel.keeper.scores import Evaluation, Scores
from evenkeel.planning.moves import MovesPlan, MovesRequest, plan_moves
from evenkeel.planning.proposal import build_fills
from evenkeel.planning.routing import TopicRoutes, plan_routes
from evenkeel.reasons import Reason

OK, REFUSED = 0, 3
FINE = {Reason.NOTHING_TO_DO, Reason.BELOW_THRESHOLD, Reason.MOVES_PLANNED}
SCHEMA_VERSION = 1
AUTO_BYTES_PER_SECOND = MovesRequest().throttle_bytes_per_second
"""Where the policy fixes none: how fast copies begin."""


def main(arguments: list[str]) -> int:
    """Plan and print; returns the exit code.

    Raises:
        InputError: a file cannot be read, or a field in it is wrong.
    """
    options = _parser().parse_args(arguments)
    snapshot = read_snapshot(options.snapshot)
    if options.what == "routes":
        return _plan_routes(options, snapshot)
    return _plan_moves(options, snapshot)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evenkeel plan", description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True)
    routes = kinds.add_parser("routes", help="where new bytes of a topic should go")
    routes.add_argument("--topic", required=True)
    moves = kinds.add_parser("moves", help="which replicas to move")
    moves.add_argument(
        "--max-deviation-percent",
        type=int,
        default=3,
        metavar="N",
        help="a volume's fill may deviate so far from the mean fill, in percent of it (default 3)",
    )
    moves.add_argument(
        "--drain",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="a broker to be emptied; may be repeated",
    )
    moves.add_argument(
        "--drain-only", action="store_true", help="only relieve what is too full; what is too empty stays so"
    )
    moves.add_argument(
        "--replication",
        action="append",
        default=[],
        metavar="TOPIC=N",
        help="another number of replicas; one per partition and plan is added or taken away; may be repeated",
    )
    moves.add_argument(
        "--routed",
        action="append",
        default=[],
        metavar="TOPIC",
        help="a topic that routing steers: says whether routing heals in time, and plans from where it leads;"
        " may be repeated",
    )
    moves.add_argument("--plot", metavar="FILE.svg", help="draw every volume before and after into this file")
    for kind in (routes, moves):
        kind.add_argument("--snapshot", required=True, metavar="FILE", help="JSON; - is standard input")
        kind.add_argument(
            "--policy",
            metavar="FILE",
            help="JSON with fields of a policy, such as maxFillPercent, and scores",
        )
        kind.add_argument("-o", "--output", choices=["table", "json"], default="table")
    return parser


def read_snapshot(path: str) -> ClusterSnapshot:
    """A snapshot from a file.

    Raises:
        InputError: not readable, not a snapshot, or of another schema version.
    """
    snapshot = codec.loads(ClusterSnapshot, _read(path))
    if snapshot.schema_version != SCHEMA_VERSION:
        found = snapshot.schema_version
        raise InputError(
            f"{path}: schemaVersion: must be {SCHEMA_VERSION}, not {found}", reason=Reason.INVALID_SPEC
        )
    return snapshot


def _read_policy(path: str | None) -> tuple[Policy, TopicRouting]:
    """A policy, and under `scores` what spec.routing.scores of a BalancedTopic would hold."""
    if path is None:
        return Policy(), TopicRouting()
    text = _read(path)
    policy = codec.loads(Policy, text)
    raw = json.loads(text)
    known = {codec.camel(field.name) for field in dataclasses.fields(Policy)} | {"scores"}
    for key in raw:
        if key not in known:
            what = f"{path}: {key}: unknown; known are {', '.join(sorted(known))}"
            raise InputError(what, reason=Reason.INVALID_SPEC)
    if "scores" not in raw:
        return policy, TopicRouting()
    from evenkeel.cli.scores import read_scores

    return policy, TopicRouting(scores=read_scores(raw["scores"], f"{path}: scores"))


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}", reason=Reason.INVALID_SPEC) from error


def _plan_routes(options: argparse.Namespace, snapshot: ClusterSnapshot) -> int:
    topic = options.topic
    policy, routing = _read_policy(options.policy)
    scored = _evaluate(snapshot, topic, routing)
    for report in scored.reports[topic]:
        if report.reason is not Reason.ROUTED:
            sys.stderr.write(f"{report.reason}: {report.name} does not count: {report.message}\n")
    routes = plan_routes(snapshot, {topic: routing}, policy, scored.costs).topics[topic]
    if options.output == "json":
        _print_json(routes_json(routes))
    elif routes.active:
        from evenkeel.cli.tables import print_routes

        print_routes(routes, snapshot)
    return _finish(routes.active, routes.reason, routes.message, options.output)


def _evaluate(snapshot: ClusterSnapshot, topic: str, routing: TopicRouting) -> Evaluation:
    scores = Scores()
    try:
        return scores.evaluate(snapshot, {topic: routing})
    finally:
        scores.close()


def _plan_moves(options: argparse.Namespace, snapshot: ClusterSnapshot) -> int:
    percent = options.max_deviation_percent
    if not 0 <= percent <= 100:  # noqa: PLR2004 - percent
        what = f"--max-deviation-percent: must be between 0 and 100, not {percent}"
        raise InputError(what, reason=Reason.INVALID_SPEC)
    policy, routing = _read_policy(options.policy)
    policy = replace(policy, enter_percent=percent, leave_percent=percent)
    routed = dict.fromkeys(_known_topics(options.routed, snapshot), routing)
    request = MovesRequest(
        routed=routed,
        routes=plan_routes(snapshot, routed, policy) if routed else None,
        drain=_known_brokers([*policy.drain, *options.drain], snapshot),
        drain_only=options.drain_only,
        replication=dict(_read_replication(text) for text in options.replication),
        throttle_bytes_per_second=policy.throttle_bytes_per_second or AUTO_BYTES_PER_SECOND,
    )
    plan = plan_moves(snapshot, policy, request)
    if options.output == "json":
        _print_json(moves_json(plan, snapshot.cluster_id, list_shared_dirs(snapshot)))
    elif plan.moves:
        from evenkeel.cli.tables import print_moves

        print_moves(plan, policy)
    if options.plot:
        _plot_moves(plan, options.plot, policy.max_fill_percent)
    return _finish(bool(plan.moves), plan.reason, plan.message, options.output)


def _plot_moves(plan: MovesPlan, path: str, max_fill_percent: int) -> None:
    from evenkeel.cli.plots import write_plot

    if not plan.moves:
        sys.stderr.write("no picture: there are no moves to draw\n")
        return
    title = f"Fill of the volumes before and after {len(plan.moves)} moves"
    write_plot(path, build_fills(plan), title, max_fill_percent)
    sys.stderr.write(f"picture: {path}\n")


def _known_topics(topics: list[str], snapshot: ClusterSnapshot) -> tuple[str, ...]:
    known = {partition.topic for partition in snapshot.partitions}
    for topic in topics:
        if topic not in known:
            raise InputError(f"--routed: the snapshot has no topic {topic}", reason=Reason.INVALID_SPEC)
    return tuple(sorted(set(topics)))


def _known_brokers(brokers: list[int], snapshot: ClusterSnapshot) -> tuple[int, ...]:
    known = {broker.id for broker in snapshot.brokers}
    for broker in brokers:
        if broker not in known:
            what = f"--drain: must be one of {', '.join(map(str, sorted(known)))}, not {broker}"
            raise InputError(what, reason=Reason.INVALID_SPEC)
    return tuple(sorted(set(brokers)))


def _read_replication(text: str) -> tuple[str, int]:
    topic, _, count = text.rpartition("=")
    if not topic or not count.isdecimal():
        raise InputError(f"--replication: must be TOPIC=N, not {text}", reason=Reason.INVALID_SPEC)
    return topic, int(count)


def routes_json(routes: TopicRoutes) -> dict[str, Any]:
    """The contract of design section 4."""
    return {
        "topic": routes.topic,
        "weights": {str(number): round(weight, 9) for number, weight in enumerate(routes.weights)},
        "predictedMaxFill": _rounded(routes.predicted_max_fill),
        "optimalMaxFill": _rounded(routes.optimal_max_fill),
        "uncappedMaxFill": _rounded(routes.uncapped_max_fill),
        "uniformMaxFill": _rounded(routes.uniform_max_fill),
        "reason": routes.reason.value,
    }


def moves_json(
    plan: MovesPlan, cluster_id: str | None = None, shared: Sequence[SharedDir] = ()
) -> dict[str, Any]:
    """The contract of design section 4, and what `evenkeel execute` needs beside it."""
    return {
        "hash": plan.hash,
        "clusterId": cluster_id,
        **({"volumes": [codec.to_json(one) for one in shared]} if shared else {}),
        "moves": moves_list(plan),
        "bytes": plan.bytes,
        "lowerBoundBytes": plan.lower_bound_bytes,
        "deviationBefore": _rounded(plan.deviation_before),
        "deviationAfter": _rounded(plan.deviation_after),
        "peakFill": _rounded(plan.peak_fill),
        "batches": [
            {
                "moves": len(batch.moves),
                "bytes": batch.bytes,
                "seconds": round(batch.seconds),
                "peaks": {peak.volume: _rounded(peak.fill) for peak in batch.peaks},
            }
            for batch in plan.batches
        ],
        "fills": {
            one.volume: {
                "before": one.before_permille / 1000,
                "after": one.after_permille / 1000,
                "peak": one.peak_permille / 1000,
            }
            for one in build_fills(plan)
        },
        "choice": None if plan.choice is None else codec.to_json(plan.choice),
        "refusals": [codec.to_json(refusal) for refusal in plan.refusals],
        "reason": plan.reason.value,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _print_json(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _finish(planned: bool, reason: Reason, message: str, output: str) -> int:  # noqa: FBT001 - private
    fine = planned or reason in FINE
    stream = sys.stdout if fine and output == "table" else sys.stderr
    stream.write(f"{reason}: {message}\n")
    return OK if fine else REFUSED
