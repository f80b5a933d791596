from __future__ import annotations

import json
import logging

from evenkeel.process.logs import JsonFormatter, current_object


def test_line_is_json_with_the_object() -> None:
    record = logging.LogRecord("evenkeel.x", logging.WARNING, __file__, 1, "put off retry_s=%d", (5,), None)
    token = current_object.set("BalancedTopic/data/events")
    line = json.loads(JsonFormatter().format(record))
    current_object.reset(token)
    assert line["message"] == "put off retry_s=5"
    assert line["object"] == "BalancedTopic/data/events"
    assert line["level"] == "WARNING"
    assert "object" not in json.loads(JsonFormatter().format(record))
