from __future__ import annotations

import aiohttp

from evenkeel.controller.health import Metrics
from evenkeel.process.health import HealthServer


async def test_answers_and_metrics() -> None:
    metrics, state = Metrics(), {"healthy": True, "ready": False}
    server = HealthServer(metrics.registry, lambda: state["healthy"], lambda: state["ready"])
    await server.start(0)
    metrics.writes.labels(verb="apply", kind="Job").inc()
    base = f"http://127.0.0.1:{server.port}"
    async with aiohttp.ClientSession() as session:
        codes = []
        for path in ("/healthz", "/readyz"):
            async with session.get(base + path) as answer:
                codes.append(answer.status)
        async with session.get(base + "/metrics") as answer:
            text = await answer.text()
    await server.close()
    assert codes == [200, 503]
    assert 'evenkeel_writes_total{kind="Job",verb="apply"} 1.0' in text
