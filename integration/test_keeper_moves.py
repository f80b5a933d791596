"""A keeper process on real brokers: what it proposes, and what becomes of the plan that is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from evenkeel.domain.exchange import Report
from evenkeel.domain.moves import Approval, DesiredPlan, PlanReport, PlanState, ProposedPlan
from evenkeel.reasons import Reason
from integration.kafka.clients import delete_topic
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import may_mount
from integration.kafka.settings import BrokerSpec
from integration.keeper import Keeper, build_desired, plain
from integration.moving import Admin, Topic, await_clean
from integration.processes import wait_until

DISKS = [BrokerSpec(number, disks=(256,)) for number in (1, 2, 3)]
ROWS = [[1, 2], [2, 1]] * 4
MEBIBYTES = 6
SLOW, FAST = 1_000_000, 100_000_000


class Uneven(Topic):
    """48 MiB on each of the brokers 1 and 2, nothing on broker 3."""

    def __init__(self, cluster: KafkaCluster) -> None:
        super().__init__(cluster, ROWS, MEBIBYTES)
        self.gone = False
        self._cluster = cluster

    def delete(self) -> None:
        if not self.gone:
            delete_topic(self._cluster.client_config(), self.name)
        self.gone = True

    def spread(self) -> int:
        """By how many replicas the brokers differ."""
        rows = self.replicas()
        counts = [sum(broker in row for row in rows) for broker in (1, 2, 3)]
        return max(counts) - min(counts)

    def count_moved(self) -> int:
        """Partitions that do not lie where they were made."""
        return sum(old != new for old, new in zip(self.rows, self.replicas(), strict=True))

    def leads_as_preferred(self) -> bool:
        """Whether each partition's first replica leads it."""
        found = (
            AdminClient(self._cluster.client_config()).list_topics(self.name, timeout=30).topics[self.name]
        )
        return all(one.leader == one.replicas[0] for one in found.partitions.values())


@pytest.fixture(scope="module")
def cluster(kafka_home: object) -> Iterator[KafkaCluster]:
    """Three equal disks; what is deleted is gone in a second, so that tests leave nothing to the next."""
    if not may_mount():
        pytest.skip("disks of chosen sizes need root and loop devices")
    with KafkaCluster.start(DISKS, properties={"log.segment.delete.delay.ms": "1000"}) as started:
        yield started


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[Admin]:
    with closing(Admin(cluster)) as found:
        yield found


@pytest.fixture
def topic(cluster: KafkaCluster) -> Iterator[Uneven]:
    found = Uneven(cluster)
    yield found
    found.delete()


@pytest.fixture
def keeper(cluster: KafkaCluster, topic: Uneven, tmp_path: Path) -> Iterator[Keeper]:
    with Keeper(tmp_path / "keeper", build_desired(plain(cluster))) as started:
        yield started


def wait_proposal(keeper: Keeper, topic: Uneven) -> ProposedPlan:
    def proposed(report: Report) -> bool:
        found = report.moves.proposal if report.moves is not None else None
        return found is not None and topic.name in {
            move.topic for batch in found.batches for move in batch.moves
        }

    report = keeper.wait("a proposal", proposed)
    assert report.moves is not None
    assert report.moves.proposal is not None
    return report.moves.proposal


def open_plan(
    keeper: Keeper, proposal: ProposedPlan, approval: Approval, throttle: int | None = None
) -> DesiredPlan:
    """What the operator makes of a proposal."""
    name, batches = f"one-{proposal.hash[:10]}", proposal.batches
    plan = DesiredPlan("uid-1", name, proposal.hash, approval, batches, proposal.cluster_id, throttle)
    keeper.want(plan=plan)
    return plan


def wait_plan(keeper: Keeper, state: PlanState, reason: Reason) -> PlanReport:
    def stands(report: Report) -> bool:
        return report.plan is not None and (report.plan.state, report.plan.reason) == (state, reason)

    found = keeper.wait(f"{state} {reason}", stands).plan
    assert found is not None
    return found


def wait_copying(keeper: Keeper, admin: Admin) -> None:
    wait_until("a reassignment", admin.under_way, seconds=90, every=0.2, processes=[keeper.process])


def assert_clean(admin: Admin, topic: Uneven) -> None:
    await_clean(admin, [topic.name])
    assert topic.digest() == topic.before


def test_a_proposal_stands_waits_and_levels_the_cluster_once_it_is_approved(
    keeper: Keeper, admin: Admin, topic: Uneven
) -> None:
    first = wait_proposal(keeper, topic)
    keeper.want(policy=replace(keeper.desired.policy, interval_seconds=6))  # measures, and tells that it has
    assert wait_proposal(keeper, topic) == first
    plan = open_plan(keeper, first, Approval.PENDING)
    waits = wait_plan(keeper, PlanState.PROPOSED, Reason.PLAN_PENDING)
    assert waits.bytes == first.bytes
    assert not admin.under_way()

    keeper.want(plan=replace(plan, approval=Approval.APPROVED))
    ended = wait_plan(keeper, PlanState.FINISHED, Reason.MOVED)
    assert (ended.moves_done, ended.moves_failed, ended.percent) == (ended.moves, 0, 100)
    assert ended.events[-1].reason is Reason.MOVED
    wait_until("level brokers", lambda: topic.spread() <= 1)  # a broker learns of moves after the controller
    wait_until("preferred leaders", topic.leads_as_preferred)
    assert_clean(admin, topic)

    keeper.want(plan=None)

    def level(report: Report) -> bool:
        return report.plan is None and report.moves is not None and report.moves.proposal is None

    report = keeper.wait("no plan", level)
    assert not [fault for fault in report.faults if fault.subject == "plan"]


def test_a_rejection_takes_back_what_runs(keeper: Keeper, admin: Admin, topic: Uneven) -> None:
    plan = open_plan(keeper, wait_proposal(keeper, topic), Approval.APPROVED, SLOW)
    wait_copying(keeper, admin)
    keeper.want(plan=replace(plan, approval=Approval.REJECTED))
    ended = wait_plan(keeper, PlanState.FINISHED, Reason.PLAN_REJECTED)
    assert ended.moves_done < ended.moves or ended.moves_failed > 0
    done = ended.moves_done - ended.moves_failed
    wait_until("what ran to be taken back", lambda: topic.count_moved() <= done)
    assert_clean(admin, topic)


def test_a_keeper_that_is_killed_goes_on_and_tells_nothing_twice(
    keeper: Keeper, admin: Admin, topic: Uneven
) -> None:
    plan = open_plan(keeper, wait_proposal(keeper, topic), Approval.APPROVED, SLOW)
    wait_copying(keeper, admin)
    keeper.wait("its start told", lambda report: report.plan is not None and bool(report.plan.events))
    keeper.kill()
    assert admin.throttles([topic.name])
    keeper.start()
    keeper.want(plan=replace(plan, throttle_bytes_per_second=FAST))
    ended = wait_plan(keeper, PlanState.FINISHED, Reason.MOVED)
    told = [event.message for event in ended.events]
    assert len(told) == len(set(told)), told
    assert [event.number for event in ended.events] == list(range(1, len(told) + 1))
    assert_clean(admin, topic)


def test_a_plan_for_a_topic_that_is_gone_is_outdated(keeper: Keeper, admin: Admin, topic: Uneven) -> None:
    proposal = wait_proposal(keeper, topic)
    topic.delete()
    open_plan(keeper, proposal, Approval.PENDING)
    ended = wait_plan(keeper, PlanState.FINISHED, Reason.PLAN_OUTDATED)
    assert f"{topic.name}-" in ended.message
    assert "is not there any more" in ended.message
    assert not admin.under_way()
