"""One turn of the keeper: measure, claim, topics, journals, routes, moves. Each step may fail alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from evenkeel import names
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import ClaimReport, Desired, Fault, Report
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.domain.table import RouteTable
from evenkeel.errors import EvenkeelError, FencedError
from evenkeel.kafka.clients.config import client_config
from evenkeel.keeper.balancing import Balancing
from evenkeel.keeper.claim import Claim
from evenkeel.keeper.drift import DriftBook
from evenkeel.keeper.faults import FaultBook, Recent
from evenkeel.keeper.journals import Journals
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.measuring import Measuring
from evenkeel.keeper.report import Facts, build_report
from evenkeel.keeper.revisions import Revisions
from evenkeel.keeper.routes import (
    Published,
    Undeclared,
    build_records,
    build_withdrawals,
    choose_tables,
    declared_topics,
    recover,
    routed_topics,
)
from evenkeel.keeper.scores import Evaluation, Scores
from evenkeel.keeper.topic_actions import apply_actions
from evenkeel.keeper.topics import (
    FoundTopics,
    build_refused,
    plan_internal,
    plan_topics,
)
from evenkeel.planning.forecast import forecast_days
from evenkeel.planning.routing import RoutesPlan, plan_routes
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)


class Cycle:
    """All that a keeper knows of its cluster. Used by one thread.

    Args:
        wall_ms: wall clock, milliseconds since the epoch.
        monotonic: the clock for ages and intervals, seconds.
        before: the report that a predecessor left.
    """

    def __init__(
        self,
        *,
        wall_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        before: Report | None = None,
    ) -> None:
        self._monotonic = monotonic
        self.faults = FaultBook()
        self.claim = Claim(wall_ms=wall_ms, monotonic=monotonic)
        self.published = Published()
        self.report = before
        self._measuring = Measuring(wall_ms, monotonic)
        self._revisions = Revisions(monotonic)
        self._journals = Journals(monotonic)
        self._balancing = Balancing(self.claim, monotonic=monotonic, before=before)
        self.scores = Scores(monotonic=monotonic)
        self._scored = Evaluation()
        self._plan: RoutesPlan | None = None
        self._full_in_days: dict[tuple[int, str], int | None] = {}
        self._repaired = Recent(monotonic)
        self._drift = DriftBook(monotonic)
        self._undeclared = Undeclared()
        self._recovered = False
        self._healthy = False
        self._released = self.cleaning = False
        """Of `cleaning`: moves are being cancelled before the claim is given back."""
        self._claim_report: ClaimReport | None = None
        self._connection: Connection | None = None

    def run(self, desired: Desired) -> Report:
        """A whole turn."""
        self._reconnect(desired.connection)
        self.faults.run("credentials", lambda: self._check_credentials(desired))
        self._healthy = self.faults.run("measure", lambda: self._measure(desired))
        if self._healthy:
            if desired.release:
                self.faults.run("claim", lambda: self._release(desired))
            else:
                self._act(desired)
        return self._tell(desired)

    def follow(self, desired: Desired) -> Report | None:
        """Between turns: read journals, route at once what a new plan announces, and go on with moves."""
        if self._measuring.newest is None:
            return None
        if desired.release:
            if self.cleaning and self._balancing.runner.is_due():
                self.faults.run("claim", lambda: self._release(desired))
            return self._tell(desired)
        fresh: set[str] = set()
        self.faults.run("journals", lambda: self._read_journals(desired, fresh))
        self.faults.run("heartbeats", lambda: self._read_heartbeats(desired))
        if fresh and self.claim.held and not desired.paused:
            # A plan needs routes at once: its producers wait for them.
            self._healthy = self.faults.run("measure", lambda: self._measure(desired))
            if self._healthy:
                self.faults.run("routes", lambda: self._route(desired))
        if self._balancing.runner.is_due():
            self.faults.run("moving", lambda: self._move(desired))
        return self._tell(desired)

    @property
    def measured_at(self) -> float | None:
        """When the newest measurement ended, by the monotonic clock, seconds."""
        return self._measuring.measured_at

    def close(self) -> None:
        """End without giving the claim back: the next life of this keeper goes on with it."""
        self._journals.close()
        self._measuring.close()
        self.scores.close()
        self.claim.drop()

    def _reconnect(self, connection: Connection) -> None:
        """Another address or other credentials: start with nothing that belongs to the old ones."""
        if connection == self._connection:
            return
        if self._connection is not None:
            self._journals.close()
            self.faults.clear()
            self._measuring.forget()
            self._forget()
            self._plan = self._claim_report = None
        self._connection, self._healthy = connection, False

    def _check_credentials(self, desired: Desired) -> None:
        """Say a missing Secret even while nothing needs it."""
        client_config(desired.connection)
        client_config(desired.connection, move=True)

    def _measure(self, desired: Desired) -> list[Fault]:
        known, before = self._measuring, self._measuring.cluster_id
        ingests = self._journals.ingests(desired.datasets)
        try:
            faults = known.measure(desired, ingests, self.published.tables, sure=self._healthy)
        finally:
            if before is not None and known.cluster_id != before:
                self._forget()
        self.faults.set("loads", known.load_faults())
        return faults

    def _forget(self) -> None:
        """Another cluster: nothing done or planned holds there."""
        self.claim.drop()
        self._balancing.forget()
        self._drift = DriftBook(self._monotonic)
        self._recovered, self._full_in_days = False, {}

    def _act(self, desired: Desired) -> None:
        self._released = self.cleaning = False
        self.faults.run("claim", lambda: self._keep_claim(desired))
        done: list[int] = []
        self.faults.run("topics", lambda: self._keep_topics(desired, done))
        if sum(done) > 0:
            self._healthy = self.faults.run("measure", lambda: self._measure(desired))
        fresh: set[str] = set()
        self.faults.run("journals", lambda: self._read_journals(desired, fresh))
        if fresh:
            self._healthy = self.faults.run("measure", lambda: self._measure(desired))
        self.faults.run("heartbeats", lambda: self._read_heartbeats(desired))
        measurement = self._newest
        self.faults.run("revisions", lambda: self._revisions.check(desired, self.report, measurement))
        self.faults.run("routes", lambda: self._route(desired))
        self.faults.run("moves", lambda: self._plan_moves(desired))
        self.faults.run("moving", lambda: self._move(desired))
        self.faults.run("forecast", self._forecast)

    def _read_journals(self, desired: Desired, fresh: set[str]) -> list[Fault]:
        """Follow what is there; data topics whose plan appeared are added to `fresh`."""
        self._journals.follow(desired.connection, desired.datasets, set(self._newest.topics))
        fresh |= self._journals.poll()
        return self._journals.faults()

    def _read_heartbeats(self, desired: Desired) -> list[Fault]:
        return self._measuring.routers.poll(desired.connection, self._newest.topics)

    def _keep_claim(self, desired: Desired) -> list[Fault]:
        found = self._measuring.found_topics()
        if not plan_internal(found):
            self.faults.set("internal topics")  # somebody else may have made them
        if names.CONTROL_TOPIC not in found.topics:
            if desired.paused:
                return []
            # Nobody owns a cluster without this topic; with it, only the owner makes what is missing.
            self._make_internal(desired, found)
        held = self.claim.keep(desired.connection, desired.owner, self._newest.cluster.cluster_id)
        self._claim_report = self.claim.report()
        if not held:
            owner = self._claim_report.owner or "another keeper"
            return [Fault(Reason.CLUSTER_OWNED_ELSEWHERE, f"this Kafka cluster belongs to {owner}")]
        if plan_internal(self._measuring.found_topics()) and not desired.paused:
            self._make_internal(desired, self._measuring.found_topics())
        self._recover(desired)
        return []

    def _recover(self, desired: Desired) -> None:
        """Learn once which tables a predecessor left; as long as there is no routes topic, nothing is known."""
        if not self._recovered and names.ROUTES_TOPIC in self._newest.topics:
            self.published, self._recovered = recover(desired.connection), True

    def _make_internal(self, desired: Desired, found: FoundTopics) -> None:
        outcome = apply_actions(desired.connection, plan_internal(found), move=False)
        if outcome.faults:
            self.faults.set("internal topics", outcome.faults)
            return
        self.faults.set("internal topics")
        self._measure(desired)

    def _keep_topics(self, desired: Desired, done: list[int]) -> list[Fault]:
        found = self._measuring.found_topics()
        plan = self._drift.review(plan_topics(desired, found), desired, found)
        refusal = self._refuse_changes(desired)
        if refusal is not None:
            self._drift.refuse(plan.actions, refusal[1])
            return [*plan.faults, *(build_refused(action, *refusal) for action in plan.actions)]
        if plan.actions:
            # Kafka fences writes of a keeper that was replaced, but not its administration.
            self._confirm_claim()
        outcome = apply_actions(desired.connection, plan.actions)
        self._drift.note(outcome)
        done.append(len(outcome.applied))
        self._repaired.note([fault for fault in plan.faults if fault.reason is Reason.RETENTION_UNSAFE])
        return [*plan.faults, *outcome.faults]

    def _refuse_changes(self, desired: Desired) -> tuple[Reason, str] | None:
        """Why no topic may be changed, or None."""
        if desired.paused:
            return Reason.PAUSED, "the cluster's spec.state is Paused"
        if self.claim.held:
            return None
        owner = self._claim_report.owner if self._claim_report and not self._claim_report.held else ""
        if owner:
            return Reason.CLUSTER_OWNED_ELSEWHERE, f"this Kafka cluster belongs to {owner}"
        return Reason.CLUSTER_NOT_READY, "this keeper does not hold the claim of the Kafka cluster yet"

    def _confirm_claim(self) -> None:
        try:
            self.claim.confirm()
        except FencedError:
            self._claim_report = self.claim.report()
            raise

    @property
    def _newest(self) -> Measurement:
        assert self._measuring.newest is not None
        return self._measuring.newest

    @property
    def _snapshot(self) -> ClusterSnapshot:
        assert self._measuring.snapshot is not None
        return self._measuring.snapshot

    def _route(self, desired: Desired) -> None:
        routed = routed_topics(desired, self._newest.topics)
        betas = self._measuring.noise.betas(self._snapshot, routed)
        self._scored = self.scores.evaluate(self._snapshot, routed)
        steady = self._measuring.noise.steady(self._snapshot)
        self._plan = plan_routes(steady, routed, desired.policy, self._scored.costs, betas=betas)
        if not self.claim.held or desired.paused or not self._recovered:
            return
        ingests = self._journals.ingests(desired.datasets)
        rates = self._measuring.routers.rates(self._measuring.growth)
        tables = choose_tables(self._plan, self.published, self.claim.epoch, ingests, rates)
        declared = declared_topics(desired)
        self._publish(tables, self._undeclared.note(self.published.tables, declared, self._monotonic()))

    def _publish(self, tables: Sequence[RouteTable], withdrawn: Sequence[str]) -> None:
        """Write tables, and take back those of topics that are not routed any more."""
        if not tables and not withdrawn:
            return
        try:
            self.claim.write([*build_records(tables), *build_withdrawals(withdrawn)])
        except FencedError:
            self._claim_report = self.claim.report()
            raise
        for table in tables:
            self.published.note(table)
            log.info(
                "routes published topic=%s epoch=%d plan=%s", table.topic, table.epoch, table.plan_offset
            )
        for topic in withdrawn:
            self.published.forget(topic)
            log.info("routes withdrawn topic=%s", topic)

    def _plan_moves(self, desired: Desired) -> None:
        routed = routed_topics(desired, self._newest.topics)
        observed = float(self._measuring.growth.observed_seconds())
        self._balancing.runner.note_waits(self._measuring.routers.waits)
        self._balancing.plan(desired, self._snapshot, routed, self._plan, observed)

    def _move(self, desired: Desired) -> list[Fault]:
        try:
            return self._balancing.turn(desired)
        except FencedError:
            self._claim_report = self.claim.report()
            raise

    def _forecast(self) -> None:
        self._full_in_days = forecast_days(self._snapshot)

    def _release(self, desired: Desired) -> None:
        self._journals.close()
        if names.CONTROL_TOPIC in self._newest.topics:
            cluster_id = self._newest.cluster.cluster_id
            self.cleaning = not self._balancing.runner.clean_up(desired, cluster_id)
            if self.cleaning:
                return
            self._withdraw_all(desired)
            self.claim.release(desired.connection, desired.owner, cluster_id)
        self._released = True
        self._claim_report = self.claim.report()

    def _withdraw_all(self, desired: Desired) -> None:
        """Nobody keeps the tables up to date any more, those that a predecessor of this process left included.

        What cannot be taken back holds no release up. Its weights age, but what it stops does not: producers that run
        keep away from those partitions until they end, or until another owner of the cluster withdraws the tables.
        Reading them and the write may wait for 10 s and more each; without a leader they would for nothing.
        """
        if not self.claim.held or names.ROUTES_TOPIC not in self._newest.topics:
            return
        if any(one.leader is None for one in self._newest.topics[names.ROUTES_TOPIC].partitions):
            log.warning("routes not withdrawn why=%s has no leader", names.ROUTES_TOPIC)
            return
        try:
            self._recover(desired)
            self._publish((), sorted(self.published.tables))
        except EvenkeelError as error:
            log.warning("routes not withdrawn why=%s", error.message)

    def _tell(self, desired: Desired) -> Report:
        measured = self._measuring.is_fresh(desired.policy.interval_seconds)
        facts = Facts(
            claim=self._claim_report,
            measured=measured,
            released=self._released,
            settled=self._balancing.settled,
            snapshot=self._measuring.snapshot if measured else None,
            topics=self._measuring.newest.topics if self._measuring.newest else {},
            plan=self._plan,
            tables=self.published.tables,
            changed_epochs=self.published.changed_epochs,
            journals={
                dataset.uid: state
                for dataset in desired.datasets
                if (state := self._journals.state(dataset.uid)) is not None
            },
            moves=self._balancing.moves,
            progress=self._balancing.progress,
            scores=self._scored.reports,
            drift=self._drift.told(),
            steered=self._measuring.routers.steered(self._plan.topics) if self._plan else {},
            full_in_days=self._full_in_days,
            faults=self._all_faults(desired, measured=measured),
        )
        self.report = build_report(desired, facts, self.report)
        return self.report

    def _all_faults(self, desired: Desired, *, measured: bool) -> tuple[Fault, ...]:
        faults = (*self.faults.all(), *self._repaired.recent())
        if measured or self.measured_at is None:
            return faults
        seconds = 3 * desired.policy.interval_seconds
        stale = Fault(Reason.MEASUREMENT_STALE, f"no measurement within {seconds} s")
        return (*faults, stale)
