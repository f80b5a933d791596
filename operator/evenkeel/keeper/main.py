"""`evenkeel keeper`: the process of one Kafka cluster, on two ConfigMaps or on two files."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

from evenkeel import names
from evenkeel.errors import EvenkeelError
from evenkeel.keeper.exchange import ConfigMapExchange, Exchange, FileExchange
from evenkeel.keeper.health import Metrics
from evenkeel.keeper.loop import Loop
from evenkeel.kube.client import Kube
from evenkeel.process import logs
from evenkeel.process.health import HealthServer

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Run until a signal. Exit: 0 stopped, 1 failure, 2 bad arguments."""
    options = _parse(arguments)
    # What librdkafka says of dead brokers, many times a second, our faults say once.
    quieter = {"evenkeel.kafka.librdkafka": logging.CRITICAL + 1}
    logs.configure(logging.DEBUG if options.verbose else logging.INFO, quieter)
    try:
        asyncio.run(_run(options))
    except EvenkeelError as error:
        log.error("keeper ends reason=%s why=%s", error.reason, error.message)
        return 1
    except OSError as error:
        log.error("keeper ends why=%s", error)
        return 1
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="evenkeel keeper",
        description="Measure one Kafka cluster, publish its routes, keep its topics, follow its ingests.",
    )
    parser.add_argument("--kubernetes", action="store_true", help="meet the operator in two ConfigMaps")
    parser.add_argument("--namespace", help="namespace of the ConfigMaps")
    parser.add_argument("--cluster", help="name of the BalancedCluster; gives both names")
    parser.add_argument("--desired", help="file or, with --kubernetes, ConfigMap to read")
    parser.add_argument("--report", help="file or, with --kubernetes, ConfigMap to write")
    parser.add_argument("--metrics-port", type=int, default=names.METRICS_PORT, help="0: a free one")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    if options.cluster:
        options.desired = options.desired or names.desired_name(options.cluster)
        options.report = options.report or names.report_name(options.cluster)
    if not options.desired or not options.report:
        parser.error("--desired and --report are needed (or --cluster with --kubernetes)")
    if options.kubernetes and not options.namespace:
        parser.error("--namespace is needed with --kubernetes")
    return options


async def _run(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    exchange = await _build_exchange(options)
    metrics = Metrics()
    keeper = Loop(exchange, metrics)
    server = HealthServer(metrics.registry, keeper.healthy, keeper.ready)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(exchange.close)
        await server.start(options.metrics_port)
        stack.push_async_callback(server.close)
        log.info("keeper runs port=%d", server.port)
        await keeper.run(stop)
    log.info("keeper stopped")


async def _build_exchange(options: argparse.Namespace) -> Exchange:
    if options.kubernetes:
        kube = await Kube.connect()
        return ConfigMapExchange(kube, options.namespace, options.desired, options.report)
    return FileExchange(Path(options.desired), Path(options.report))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
