"""Settings of the operator process, from environment variables that the chart sets."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenkeel import names
from evenkeel.errors import ConfigurationError
from evenkeel.reasons import Reason

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Settings:
    """What this process is told; every field names its variable."""

    namespace: str
    """EVENKEEL_NAMESPACE: where the Lease lies; its UID is the installation's id. Default: the pod's own."""
    control_image: str
    """EVENKEEL_CONTROL_IMAGE (required): image of the keepers."""
    data_image: str
    """EVENKEEL_DATA_IMAGE (required): image of producers, sealers and loaders."""
    identity: str
    """EVENKEEL_POD_NAME and a random suffix: unique per process, so that a restart does not inherit the Lease."""
    pull_policy: str = "IfNotPresent"
    """EVENKEEL_IMAGE_PULL_POLICY."""
    metrics_port: int = names.METRICS_PORT
    """EVENKEEL_METRICS_PORT: /healthz, /readyz, /metrics; 0 chooses a free one."""
    relist_seconds: float = 60.0
    """EVENKEEL_RELIST_SECONDS: how often our kinds are listed to find what a watch lost."""
    absent_seconds: float = 2.0
    """EVENKEEL_ABSENT_SECONDS: the same while a CRD is not installed."""
    writes_per_second: float = 50.0
    """EVENKEEL_WRITES_PER_SECOND: pace of all writes; a burst of 20 is let through."""
    log_level: str = "INFO"
    """EVENKEEL_LOG_LEVEL."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings in `environment`.

    Raises:
        ConfigurationError: a required variable is missing or a value is out of range; names the variable.
    """
    return Settings(
        namespace=environment.get("EVENKEEL_NAMESPACE") or _own_namespace(),
        control_image=_required(environment, "EVENKEEL_CONTROL_IMAGE"),
        data_image=_required(environment, "EVENKEEL_DATA_IMAGE"),
        identity=f"{environment.get('EVENKEEL_POD_NAME', 'operator')}-{secrets.token_hex(4)}",
        pull_policy=_choice(environment, "EVENKEEL_IMAGE_PULL_POLICY", ("IfNotPresent", "Always", "Never")),
        metrics_port=int(_number(environment, "EVENKEEL_METRICS_PORT", names.METRICS_PORT, 0, 65535)),
        relist_seconds=_number(environment, "EVENKEEL_RELIST_SECONDS", 60.0, 1.0, 3600.0),
        absent_seconds=_number(environment, "EVENKEEL_ABSENT_SECONDS", 2.0, 0.1, 60.0),
        writes_per_second=_number(environment, "EVENKEEL_WRITES_PER_SECOND", 50.0, 1.0, 1000.0),
        log_level=_choice(environment, "EVENKEEL_LOG_LEVEL", ("INFO", "DEBUG", "WARNING", "ERROR")),
    )


def _own_namespace() -> str:
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError as error:
        raise _refuse(f"EVENKEEL_NAMESPACE: not set, and not in a pod: {error}") from error


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise _refuse(f"{name}: required")
    return value


def _choice(environment: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = environment.get(name, allowed[0])
    if value not in allowed:
        raise _refuse(f"{name}: must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _number(environment: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    text = environment.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError as error:
        raise _refuse(f"{name}: must be a number, not {text!r}") from error
    if not least <= value <= most:
        raise _refuse(f"{name}: must be between {least:g} and {most:g}, not {value:g}")
    return value


def _refuse(message: str) -> ConfigurationError:
    return ConfigurationError(message, reason=Reason.INVALID_SPEC)


def level_number(name: str) -> int:
    """`INFO` -> 20."""
    return logging.getLevelNamesMapping()[name]
