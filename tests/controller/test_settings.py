from __future__ import annotations

import pytest

from evenkeel.controller.settings import read_settings
from evenkeel.errors import ConfigurationError

GOOD = {
    "EVENKEEL_NAMESPACE": "evenkeel",
    "EVENKEEL_CONTROL_IMAGE": "control:1",
    "EVENKEEL_DATA_IMAGE": "data:1",
    "EVENKEEL_POD_NAME": "operator-x",
}


def test_defaults() -> None:
    settings = read_settings(GOOD)
    assert (settings.pull_policy, settings.metrics_port, settings.relist_seconds) == (
        "IfNotPresent",
        8080,
        60.0,
    )


def test_identity_is_new_for_each_process() -> None:
    first, second = read_settings(GOOD).identity, read_settings(GOOD).identity
    assert first.startswith("operator-x-")
    assert first != second


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("EVENKEEL_CONTROL_IMAGE", "", "required"),
        ("EVENKEEL_DATA_IMAGE", "", "required"),
        ("EVENKEEL_IMAGE_PULL_POLICY", "Sometimes", "IfNotPresent, Always, Never"),
        ("EVENKEEL_METRICS_PORT", "70000", "65535"),
        ("EVENKEEL_RELIST_SECONDS", "soon", "must be a number"),
        ("EVENKEEL_WRITES_PER_SECOND", "0", "between 1 and 1000"),
        ("EVENKEEL_LOG_LEVEL", "LOUD", "INFO"),
        ("EVENKEEL_NAMESPACE", "", "not in a pod"),
    ],
)
def test_bad_values_name_the_variable(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as caught:
        read_settings({**GOOD, name: value})
    assert said in str(caught.value)
