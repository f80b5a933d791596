"""Balancing on a simulated Kafka: claim, journal and proposal that outlive the process, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, Fault, Owner, Policy, Report
from evenkeel.domain.moves import Approval, DesiredPlan, Move, PlanReport, PlanState, ProposedPlan
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir, Partition
from evenkeel.keeper.balancing import Balancing
from evenkeel.keeper.moving.mover import Mover
from evenkeel.keeper.moving.observation import Wanted
from evenkeel.keeper.running import PlanRunner
from tests.support.moving_kafka import MB, MovingKafka
from tests.support.moving_world import KeptJournal, Life, build_kafka

CONNECTION = Connection(("k:1",))
OWNER = Owner("i", "u", "ns/c")
INTERVAL = 15.0


@dataclass
class HeldClaim:
    """What a runner asks of a claim."""

    held: bool = True
    epoch: int = 1

    def regain(self, *_: object) -> bool:
        return self.held


class Keeper:
    """The part of a keeper that balances; `restart` makes a new process with the report of the last one."""

    def __init__(self, kafka: MovingKafka, **more: object) -> None:
        self.kafka, self.journal, self.claim = kafka, KeptJournal(), HeldClaim()
        self.desired = Desired(owner=OWNER, connection=CONNECTION, policy=Policy(), **more)  # type: ignore[arg-type]
        self.elected: list[Sequence[Move]] = []
        self.faults: list[Fault] = []
        self.reports: list[PlanReport] = []
        self.balancing = self.restart()

    def restart(self, *, forgetful: bool = False) -> Balancing:
        before = getattr(self, "balancing", None)
        report = None
        if before is not None and not forgetful:
            report = Report("v", moves=before.moves, plan=before.progress)
        clock = lambda: self.kafka.now  # noqa: E731 - two lines would hide what it is
        mover = Mover(
            self.claim,  # type: ignore[arg-type]
            monotonic=clock,
            open_hand=lambda _: self.kafka,
            open_journal=lambda *_: Life(self.journal),
        )
        runner = PlanRunner(
            self.claim,  # type: ignore[arg-type]
            monotonic=clock,
            before=report.plan if report is not None else None,
            mover=mover,
            elect=lambda _, moves: self.elected.append(moves) or 0,  # type: ignore[func-returns-value]
        )
        self.balancing = Balancing(
            self.claim,  # type: ignore[arg-type]
            monotonic=clock,
            before=report,
            runner=runner,
        )
        return self.balancing

    def want(self, **changes: object) -> None:
        self.desired = replace(self.desired, **changes)  # type: ignore[arg-type]

    def decide(self, approval: Approval, **changes: object) -> None:
        """Decide about the open plan."""
        assert self.desired.plan is not None
        self.want(plan=replace(self.desired.plan, approval=approval, **changes))  # type: ignore[arg-type]

    def open(
        self, proposal: ProposedPlan | None = None, uid: str = "uid-1", **changes: object
    ) -> DesiredPlan:
        """What the operator makes of a proposal."""
        proposal = proposal or self.proposal
        assert proposal is not None
        plan = DesiredPlan(
            uid,
            f"c-{proposal.hash[:10]}",
            proposal.hash,
            Approval.PENDING,
            proposal.batches,
            proposal.cluster_id,
        )
        self.want(plan=replace(plan, **changes))  # type: ignore[arg-type]
        return plan

    @property
    def proposal(self) -> ProposedPlan | None:
        return self.balancing.moves.proposal if self.balancing.moves is not None else None

    @property
    def told(self) -> PlanReport:
        assert self.balancing.progress is not None
        return self.balancing.progress

    def measure(self) -> ClusterSnapshot:
        """A whole turn: plan from a fresh snapshot, then move."""
        snapshot = take_snapshot(self.kafka)
        self.balancing.plan(self.desired, snapshot, {}, None, 0.0)
        self.turn(0.0)
        return snapshot

    def turn(self, seconds: float = 1.0) -> None:
        """Time passes, then one turn of moves."""
        self.kafka.tick(seconds)
        self.faults = self.balancing.turn(self.desired)
        if self.balancing.progress is not None and self.balancing.progress not in self.reports[-1:]:
            self.reports.append(self.balancing.progress)

    def run(self, until: Callable[[PlanReport], bool], seconds: float = 3600) -> PlanReport:
        """Turns, and a measurement each interval, until the report says so."""
        end, measured = self.kafka.now + seconds, self.kafka.now - INTERVAL
        while self.kafka.now < end:
            if self.kafka.now - measured >= INTERVAL:
                self.measure()
                measured = self.kafka.now
            self.turn()
            if self.balancing.progress is not None and until(self.balancing.progress):
                return self.balancing.progress
        raise AssertionError(f"not within {seconds} s: {self.balancing.progress}")

    def finish(self, seconds: float = 3600) -> PlanReport:
        return self.run(lambda told: told.state is PlanState.FINISHED, seconds)


def take_snapshot(kafka: MovingKafka) -> ClusterSnapshot:
    """What a measurement would find."""
    wanted = Wanted(frozenset(kafka.topics), frozenset(kafka.brokers))
    seen = kafka.look(wanted)
    sizes = {
        (broker, key): size
        for broker, dirs in seen.dirs.items()
        for entry in dirs
        for key, size in entry.replica_bytes.items()
    }
    brokers = tuple(
        Broker(
            number,
            online=number in seen.online,
            fenced=number not in seen.online,
            log_dirs=tuple(
                LogDir(entry.path, entry.total_bytes, entry.usable_bytes, cordoned=entry.cordoned)
                for entry in seen.dirs.get(number, ())
            ),
        )
        for number in sorted(kafka.brokers)
    )
    partitions = []
    for name, topic in sorted(seen.topics.items()):
        for row in topic.partitions:
            moving = seen.reassignments.get((name, row.partition))
            partitions.append(
                Partition(
                    topic=name,
                    partition=row.partition,
                    leader=row.leader,
                    replicas=row.replicas,
                    isr=row.isr,
                    adding=moving.adding if moving else (),
                    removing=moving.removing if moving else (),
                    replica_bytes={
                        one: sizes[one, (name, row.partition)]
                        for one in row.replicas
                        if (one, (name, row.partition)) in sizes
                    },
                )
            )
    return ClusterSnapshot(brokers, tuple(partitions), (), cluster_id=seen.cluster_id)


def build_uneven(partitions: int = 8, megabytes: int = 100) -> Keeper:
    """Three brokers of 10 GB; `t` of some partitions lies on broker 1 alone."""
    kafka = build_kafka()
    kafka.add_topic("t", [[1]] * partitions, [megabytes * MB] * partitions)
    return Keeper(kafka)
