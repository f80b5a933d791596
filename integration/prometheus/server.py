"""A real Prometheus as a process, and an exporter whose numbers a test chooses."""

from __future__ import annotations

import http.server
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from integration.processes import Process, wait_until
from integration.workspace import Workspace
from scripts.provision import prometheus

SCRAPE_SECONDS = 1


@dataclass
class Exporter:
    """Serves `text` under /metrics; `gone` lets it answer with an error."""

    text: str = ""
    gone: bool = False
    address: str = ""

    def show(self, values: Mapping[str, str | float]) -> None:
        """Series with their values, such as `node_load1{node="a"}` -> 0.5."""
        self.text = "".join(f"{series} {value}\n" for series, value in values.items())


@contextmanager
def exporter() -> Iterator[Exporter]:
    """An exporter on loopback, until the block ends."""
    shown = Exporter()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(500 if shown.gone else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(shown.text.encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        shown.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield shown
        finally:
            server.shutdown()
            thread.join()


class PrometheusServer:
    """Prometheus with one target, scraped each second."""

    def __init__(self, target: str) -> None:
        binaries = prometheus.ensure()
        self._workspace = Workspace("prometheus")
        port = self._workspace.lease_port()
        self.url = f"http://127.0.0.1:{port}"
        config = self._workspace.path / "prometheus.yml"
        config.write_text(yaml.safe_dump(_config(target)))
        self.process: Process = self._workspace.launch(
            "prometheus",
            [
                binaries / "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={self._workspace.path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
        )
        wait_until("Prometheus", self._ready, processes=[self.process])

    def close(self) -> None:
        """End it and remove its data."""
        self._workspace.close()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _config(target: str) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": [{"job_name": "test", "static_configs": [{"targets": [target]}]}],
    }
