"""The demo from a prepared machine to the page of results. `scripts/demo` starts it; see there."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import disks, gpus, lifecycle, loading
from e2e.cluster.lifecycle import Cluster
from e2e.demo import data, fills, follow, install, ledger, messages, results, sources, state, twins, view
from e2e.demo.fills import Gauge
from e2e.demo.messages import Load
from e2e.demo.meter import Meter
from e2e.demo.prepare import Prepared
from e2e.demo.yardstick import Yardstick, build_yardstick
from e2e.kafka import ballast, deploy
from e2e.kafka.deploy import KafkaInPods
from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.domain.exchange import Policy
from evenkeel.errors import EvenkeelError
from evenkeel.planning.placement import plan_assignments
from scripts.provision import cache, gotools, steps
from scripts.provision.tasks import Tasks

DISKS_MEBIBYTES = (512, 768, 1024, 1024)
TARGETS = {1: 0.60, 2: 0.45, 3: 0.30, 4: 0.15}
"""Share of each broker's disk that ballast fills."""
BALLAST_TOPIC = "ballast"
CACHE_MEBIBYTES = 512
CACHE_PATH = "/var/lib/evenkeel/cache"
NAMESPACE = "team-vision"
LOG_SECONDS = 20.0
PREPARED_VARIABLE = "EVENKEEL_DEMO_PREPARED"


@dataclass(frozen=True)
class Before:
    """What was measured before Evenkeel was installed."""

    fills: dict[int, float]
    twins: tuple[dict[int, float], ...]
    yardstick: Yardstick


@dataclass(frozen=True)
class Sources:
    """The real input on this machine."""

    clipart: Path
    digits: Path

    def folders(self) -> dict[str, Path]:
        """Name of dataset and claim -> folder."""
        return {"clipart": self.clipart, "digits": self.digits}


def main(arguments: list[str]) -> int:
    """Run -> exit status: 0 everything holds, 1 something does not or failed, 130 interrupted."""
    steps.listen()
    prepared = Prepared.loads(os.environ[PREPARED_VARIABLE])
    (name,) = arguments
    try:
        return run(name, prepared)
    except (steps.StepFailed, EvenkeelError) as error:
        steps.say(f"error: {error}\nThe cluster is left as it is; scripts/demo --down removes it.")
        return 1
    except KeyboardInterrupt:
        steps.say("\ninterrupted; another run starts afresh, scripts/demo --down removes what is there")
        return 130


def run(name: str, prepared: Prepared) -> int:
    """Everything from the cluster on."""
    with Meter() as meter, Tasks() as tasks:
        packed = tasks.start(lambda: messages.pack(_example("30-clipart.yaml"), data.ensure_clipart()))
        digits = tasks.start(data.ensure_digits)
        tasks.start(deploy.image)
        cluster = lifecycle.up(name)
        origin = Sources(data.ensure_clipart(), digits.result())
        tasks.start(lambda: furnish(cluster, origin))
        kafka = deploy.deploy(cluster, DISKS_MEBIBYTES)
        tasks.start(lambda: load_images(cluster, prepared))
        before = measure_default(kafka, packed.result()) if kafka.has_disks else None
        tasks.wait_all()
        install.install(cluster, prepared.control, prepared.data)
        last = work(cluster, kafka, prepared.training)
        measured = gather_results(cluster, kafka, before, last, origin, prepared, meter)
    return report(name, cluster, measured)


def furnish(cluster: Cluster, origin: Sources) -> None:
    """Sources on the first worker; GPU capacity and a disk for the cache on the others."""
    source, *trainers = cluster.workers
    sources.offer(cluster, source, NAMESPACE, origin.folders())
    for node in trainers:
        gpus.set_gpus(cluster, node, 1)
        try:
            disks.make_disk(node, "cache", CACHE_MEBIBYTES, CACHE_PATH)
        except steps.StepFailed as error:
            steps.say(f"{node}: the cache shares the node's file system: {error}")


def load_images(cluster: Cluster, prepared: Prepared) -> None:
    """Each image to the nodes that run it."""
    source, *trainers = cluster.workers
    loading.load([prepared.control, prepared.data, prepared.training], cluster.name, trainers)
    loading.load([prepared.control, prepared.data], cluster.name, [source])


def measure_default(kafka: KafkaInPods, load: Load) -> Before:
    """Skew the disks, then find what default partitioning makes of the load, and what would be best."""
    address = kafka.host_bootstrap
    with Gauge(address) as gauge:
        with steps.step(f"ballast: disks filled to {', '.join(f'{fill:.0%}' for fill in TARGETS.values())}"):
            wanted = fills.plan_ballast(gauge.read_still(), TARGETS)
            ballast.write_ballast(address, BALLAST_TOPIC, wanted)
            start = fills.fills(gauge.read_still())
        storage = _example("30-clipart.yaml").spec.storage
        brokers = gauge.snapshot().brokers
        assignments = plan_assignments(brokers, storage.partitions or 24, storage.replication_factor or 2)
        with steps.step(f"default partitioning, {twins.ROUNDS} times {load.value_bytes >> 20} MiB"):
            twin = twins.measure(gauge, address, load, assignments)
        best = build_yardstick(gauge.snapshot(), assignments, load.planned_bytes, Policy())
    return Before(start, twin, best)


def work(cluster: Cluster, kafka: KafkaInPods, training: str) -> state.State:
    """Apply the examples and follow them to the end -> the last state."""
    with Gauge(kafka.host_bootstrap) as gauge, view.open_view() as shown:

        def read() -> Mapping[int, float]:
            return fills.fills(gauge.read()) if kafka.has_disks else {}

        install.apply_example(cluster, "10-cluster.yaml")
        follow.follow(cluster, [follow.CLUSTER], shown, read)
        for name in ("20-topic.yaml", "30-clipart.yaml", "31-digits.yaml", "40-training.yaml"):
            install.apply_example(cluster, name, training)
        return follow.follow(cluster, follow.WORK, shown, read)


def gather_results(
    cluster: Cluster,
    kafka: KafkaInPods,
    before: Before | None,
    last: state.State,
    origin: Sources,
    prepared: Prepared,
    meter: Meter,
) -> results.Measured:
    """Everything for the page."""
    counts = {
        "clipart": messages.count_source(_example("30-clipart.yaml"), origin.clipart),
        "digits": messages.count_source(_example("31-digits.yaml"), origin.digits),
    }
    datasets = {name: state.build_dataset(last, name, count) for name, count in counts.items()}
    logs = read_logs(cluster, last)
    digits = datasets["digits"]
    return results.Measured(
        routing=None if before is None else _routing(kafka, before),
        datasets=tuple(datasets.values()),
        ranks=tuple(_rank(log, digits.digest) for log in logs),
        coverage=ledger.check_coverage(logs, ledger.record_ids(digits.source_records)),
        steps=(*prepared.steps, *((step.title, step.seconds) for step in steps.finished)),
        seconds=time.monotonic() - prepared.began,
        peak_bytes=meter.peak_bytes,
    )


def read_logs(cluster: Cluster, last: state.State) -> list[ledger.RankLog]:
    """The logs of the ranks that ended well, by rank."""
    pods = [pod for pod in last.pods_of(view.JOB) if pod.status.get("phase") == "Succeeded"]
    return sorted((_read_log(cluster, pod) for pod in pods), key=lambda log: log.rank)


def _read_log(cluster: Cluster, pod: state.Seen) -> ledger.RankLog:
    # A node may write down the last lines of a container a moment after its end.
    deadline = time.monotonic() + LOG_SECONDS
    while True:
        text = cluster.kubectl("--namespace", pod.namespace, "logs", pod.name)
        try:
            return ledger.parse_log(text)
        except ValueError:
            if time.monotonic() > deadline:
                raise
        time.sleep(follow.POLL_SECONDS)


def report(name: str, cluster: Cluster, measured: results.Measured) -> int:
    """Print the page, keep it as JSON -> exit status."""
    rows = results.judge(measured)
    sys.stdout.write(results.build_page(measured, rows, _hints(name, cluster)))
    path = cache.root() / "demo" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results.build_report(measured, rows), indent=2) + "\n")
    sys.stdout.write(f"  The same as JSON: {path}\n")
    return 0 if results.holds(rows) else 1


def _routing(kafka: KafkaInPods, before: Before) -> results.Routing:
    with Gauge(kafka.host_bootstrap) as gauge:
        after = fills.fills(gauge.read_still())
    best = before.yardstick
    return results.Routing(before.fills, before.twins, after, best.optimum, best.uncapped)


def _rank(log: ledger.RankLog, digest: str) -> results.Rank:
    return results.Rank(
        rank=log.rank,
        records=log.records,
        epochs=len(log.epochs),
        accuracy=log.accuracy,
        held_out=log.held_out,
        consistent=log.consistent,
        same_revision=log.digest == digest,
    )


def _example(name: str) -> TrainingDataset:
    return messages.read_dataset(install.EXAMPLES / name)


def _hints(name: str, cluster: Cluster) -> list[str]:
    down = "scripts/demo --down" + ("" if name == lifecycle.DEFAULT_NAME else f" --name {name}")
    return [
        f"export KUBECONFIG={cluster.kubeconfig} PATH={gotools.ensure()}:$PATH",
        "kubectl get evenkeel --all-namespaces       # everything that Evenkeel looks after",
        "kubectl explain trainingdataset.spec        # what can be declared",
        "kubectl --namespace kafka describe balancedcluster demo",
        f"kubectl --namespace {NAMESPACE} get trainingdataset --output wide",
        f"{down}        # remove the cluster",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
