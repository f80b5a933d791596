"""What the keeper knows of its cluster: the newest measurement, and what earlier ones taught."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evenkeel.domain.exchange import Desired, Fault
from evenkeel.domain.snapshot import ClusterSnapshot
from evenkeel.domain.table import RouteTable
from evenkeel.kafka.clients.probe import TURN_SECONDS, probe
from evenkeel.keeper.assembly import assemble
from evenkeel.keeper.backlog import Backlog, topic_bytes
from evenkeel.keeper.collector import gather
from evenkeel.keeper.faults import measurement_faults
from evenkeel.keeper.growth import Growth
from evenkeel.keeper.inflow import Inflow
from evenkeel.keeper.last_known import LastKnown
from evenkeel.keeper.loads import Loads
from evenkeel.keeper.measurement import Measurement
from evenkeel.keeper.noise import FillNoise
from evenkeel.keeper.places import believe_places
from evenkeel.keeper.routes import Ingest, routed_topics
from evenkeel.keeper.shared_volumes import SharedVolumes
from evenkeel.keeper.steering import RouterWatch, build_horizons
from evenkeel.keeper.topics import FoundTopics, config_keys


class Measuring:
    """Measures, and keeps what a single measurement cannot tell. Used by one thread.

    Args:
        wall_ms: wall clock, milliseconds since the epoch.
        monotonic: the clock for ages, seconds.
    """

    def __init__(self, wall_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._wall_ms, self._monotonic = wall_ms, monotonic
        self.newest: Measurement | None = None
        self.snapshot: ClusterSnapshot | None = None
        self.measured_at: float | None = None
        self.growth, self.noise = Growth(), FillNoise()
        self.routers = RouterWatch(wall_ms, monotonic)
        self._backlog = Backlog()
        self._known, self._shared = LastKnown(), SharedVolumes()
        self._loads = Loads(wall_seconds=lambda: wall_ms() / 1000, monotonic=monotonic)

    def measure(
        self, desired: Desired, ingests: Mapping[str, Ingest], tables: Mapping[str, RouteTable], *, sure: bool
    ) -> list[Fault]:
        """Ask the brokers and make a snapshot of what they say.

        Args:
            desired: how to reach them, and what belongs to whom.
            ingests: running ingests by data topic.
            tables: routes in force by topic.
            sure: the last measurement worked.

        Raises:
            EvenkeelError: no broker answers, or a right or the credentials are missing.
        """
        if not sure:
            # kafka-python takes a wrong password for a dead address; this tells them apart in a second.
            probe(desired.connection, TURN_SECONDS)
        now_ms, there = self._wall_ms(), self.newest.topics if self.newest else ()
        horizons = build_horizons(routed_topics(desired, there), self.growth, now_ms)
        keys = config_keys(desired)
        measurement = gather(desired.connection, now_ms=now_ms, config_keys=keys, horizons=horizons)
        if self.newest is not None and measurement.cluster.cluster_id != self.cluster_id:
            self.forget()
        fresh = self.growth.observe(measurement)
        routed = routed_topics(desired, measurement.topics)
        if fresh:
            self.routers.observe(self.growth, tables, routed, desired.policy, now_ms)
        known = self._known.complete(measurement, desired.policy.interval_seconds)
        places, odd = believe_places(desired.places, known)
        snapshot = assemble(
            known,
            self.growth,
            places=places,
            inflow=self._inflow(ingests, measurement, set(routed)),
            horizons=horizons,
            before=self.snapshot,
        )
        self.snapshot = self._loads.add_to(snapshot, desired.policy.loads, desired.policy.interval_seconds)
        if fresh:
            self.noise.observe(self.snapshot)
        self.newest, self.measured_at = measurement, self._monotonic()
        shared = self._shared.observe(measurement, places)
        return [*measurement_faults(measurement, known.kept_dirs), *odd, *shared]

    @property
    def cluster_id(self) -> str | None:
        """Kafka's name for the cluster that was measured last."""
        return self.newest.cluster.cluster_id if self.newest else None

    def load_faults(self) -> list[Fault]:
        """What is wrong with the node loads of the newest snapshot."""
        return list(self._loads.faults())

    def is_fresh(self, interval_seconds: int) -> bool:
        """Whether the newest snapshot is younger than three intervals."""
        at = self.measured_at
        return at is not None and self._monotonic() - at <= 3 * interval_seconds

    def found_topics(self) -> FoundTopics:
        """Topics as the newest measurement found them."""
        assert self.newest is not None
        assert self.snapshot is not None
        return FoundTopics(
            self.newest.topics, self.newest.configs, self.snapshot.brokers, self.newest.empty_topics()
        )

    def forget(self) -> None:
        """Another cluster: nothing learned holds there."""
        self.growth, self.noise = Growth(), FillNoise()
        self._known, self._shared = LastKnown(), SharedVolumes()
        self.routers.forget()
        self._loads.forget()
        self.newest = self.snapshot = self.measured_at = None

    def close(self) -> None:
        """Give connections back."""
        self.routers.close()
        self._loads.close()

    def _inflow(self, ingests: Mapping[str, Ingest], measurement: Measurement, routed: set[str]) -> Inflow:
        sizes = topic_bytes(measurement)
        remaining = {
            topic: self._backlog.remaining(topic, ingest, None if sizes is None else sizes.get(topic, 0))
            for topic, ingest in ingests.items()
        }
        return self.routers.inflow(routed, remaining)
