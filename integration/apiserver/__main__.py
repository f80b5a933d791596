"""An API server to try things on: `python -m integration.apiserver`, until Ctrl-C."""

from __future__ import annotations

import signal
import sys

from integration.apiserver.server import ApiServer

ends = {signal.SIGINT, signal.SIGTERM}
with ApiServer.start(controller_manager=True) as server:
    sys.stdout.write(f"export KUBECONFIG={server.kubeconfig()}\n")
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    signal.sigwait(ends)
