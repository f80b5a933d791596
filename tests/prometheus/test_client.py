from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from evenkeel.errors import InputError, RetryableError
from evenkeel.prometheus.client import PrometheusClient
from evenkeel.reasons import Reason

VECTOR = '{"status":"success","data":{"resultType":"vector","result":[%s]}}'


@dataclass
class Server:
    """Answers every request with the same status and body."""

    url: str = ""
    status: int = 200
    body: str = VECTOR % ""
    headers: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def server() -> Iterator[Server]:
    shown = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(shown.status)
            for name, value in shown.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(shown.body.encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        shown.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield shown
        running.shutdown()
        thread.join()


def query(server: Server) -> list[tuple[dict[str, str], float]]:
    with PrometheusClient(server.url, 2) as client:
        return [(dict(one.labels), one.value) for one in client.query("up")]


def test_every_series_is_a_sample(server: Server) -> None:
    server.body = VECTOR % '{"metric":{"node":"a"},"value":[1.5,"NaN"]},{"metric":{},"value":[1.5,"0.25"]}'
    found = query(server)
    assert found[1] == ({}, 0.25)
    assert found[0][0] == {"node": "a"}
    assert found[0][1] != found[0][1]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, '{"status":"error","errorType":"bad_data","error":"parse error"}'),
        (200, '{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}'),
        (200, VECTOR % '{"metric":{},"values":[[1,"2"]]}'),
    ],
    ids=["refused", "scalar", "matrix"],
)
def test_a_query_that_gives_no_vector_is_the_users(server: Server, status: int, body: str) -> None:
    server.status, server.body = status, body
    with pytest.raises(InputError) as raised:
        query(server)
    assert raised.value.reason is Reason.PROMETHEUS_QUERY_REFUSED


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (503, "starting", {}),
        (200, "<html>", {}),
        (200, "[]", {}),
        (302, "", {"Location": "http://127.0.0.1:1/"}),
    ],
    ids=["busy", "no JSON", "not Prometheus", "redirect"],
)
def test_a_server_that_is_no_prometheus_is_unreachable(
    server: Server, status: int, body: str, headers: dict[str, str]
) -> None:
    server.status, server.body, server.headers = status, body, headers
    with pytest.raises(RetryableError) as raised:
        query(server)
    assert raised.value.reason is Reason.PROMETHEUS_UNREACHABLE


def test_a_dead_address_is_unreachable() -> None:
    with PrometheusClient("http://127.0.0.1:1", 1) as client, pytest.raises(RetryableError) as raised:
        client.query("up")
    assert raised.value.reason is Reason.PROMETHEUS_UNREACHABLE
