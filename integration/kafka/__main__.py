"""A Kafka cluster to try things on: `python -m integration.kafka [MiB ...]`, until Ctrl-C.

One broker per number, on a disk of that size; without numbers three on plain directories.
"""

from __future__ import annotations

import signal
import sys

from integration.kafka.cluster import THREE, KafkaCluster
from integration.kafka.settings import BrokerSpec

sizes = [int(word) for word in sys.argv[1:]]
brokers = [BrokerSpec(index, disks=(size,)) for index, size in enumerate(sizes, start=1)] or THREE
ends = {signal.SIGINT, signal.SIGTERM}
with KafkaCluster.start(brokers) as cluster:
    sys.stdout.write(f"bootstrap {cluster.bootstrap}\n")
    for spec in brokers:
        sys.stdout.write(f"broker {spec.id} {cluster.log_dir(spec.id)}\n")
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    signal.sigwait(ends)
