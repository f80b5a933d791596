"""Faults by the step that found them: one step that fails never stops or hides another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from evenkeel.domain.exchange import Fault
from evenkeel.errors import EvenkeelError
from evenkeel.keeper.last_known import KEPT_INTERVALS
from evenkeel.keeper.measurement import Measurement
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)
RECENT_SECONDS = 30.0
ANY_BROKER = "broker/any"
"""Subject of questions that every broker can answer."""


class FaultBook:
    """The faults of each step's last run."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[Fault, ...]] = {}

    def run(self, step: str, action: Callable[[], Iterable[Fault] | None]) -> bool:
        """Run a step; its faults replace those of its last run. Returns whether it ended without an error.

        What the step returns are faults beside its work; an exception of any kind becomes one.
        """
        try:
            found = tuple(action() or ())
        except EvenkeelError as error:
            log.warning("step failed step=%s reason=%s why=%s", step, error.reason, error.message)
            self._steps[step] = (Fault(error.reason, error.message),)
            return False
        except Exception as error:
            # A bug in one step must not take the others down; it is told like every other fault.
            log.exception("step failed step=%s", step)
            message = f"{step}: {type(error).__name__}; the keeper's log has the details"
            self._steps[step] = (Fault(Reason.INTERNAL_ERROR, message),)
            return False
        self._steps[step] = found
        return True

    def set(self, step: str, faults: Iterable[Fault] = ()) -> None:
        """Replace the faults of a step."""
        self._steps[step] = tuple(faults)

    def clear(self) -> None:
        """Forget the faults of all steps: they speak of something else."""
        self._steps.clear()

    def all(self) -> tuple[Fault, ...]:
        """The faults of all steps."""
        return tuple(fault for faults in self._steps.values() for fault in faults)


class Recent:
    """Faults that were mended at once: told for a while all the same, or nobody would ever see them."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._noted: dict[Fault, float] = {}

    def note(self, faults: Iterable[Fault]) -> None:
        """Remember faults from now on."""
        self._noted.update(dict.fromkeys(faults, self._monotonic()))

    def recent(self) -> tuple[Fault, ...]:
        """Those noted within RECENT_SECONDS."""
        oldest = self._monotonic() - RECENT_SECONDS
        self._noted = {fault: at for fault, at in self._noted.items() if at > oldest}
        return tuple(self._noted)


def measurement_faults(measurement: Measurement, kept: Collection[int] = ()) -> list[Fault]:
    """What could not be measured, in words that stay the same while the cause does.

    Args:
        measurement: as gathered, without last known answers.
        kept: brokers whose last known sizes are used instead.
    """
    faults = [
        Fault(
            Reason.MEASUREMENT_INCOMPLETE,
            f"broker {broker.id} is not online: what lies on it is unknown",
            f"broker/{broker.id}",
        )
        for broker in measurement.cluster.brokers
        if broker.fenced
    ]
    faults += [_build_missing(subject, error, kept) for subject, error in measurement.errors()]
    told = measurement.configs_error is not None
    if measurement.topics and not told and all(config is None for config in measurement.configs.values()):
        message = "topic settings need the right DescribeConfigs on Topic *"
        faults.append(Fault(Reason.AUTHORIZATION_MISSING, message))
    faults += _refused_throttles(measurement)
    offline = [
        (broker, directory.path)
        for broker, answer in measurement.dirs.items()
        if isinstance(answer, tuple)
        for directory in answer
        if not directory.online
    ]
    faults += [
        Fault(Reason.MEASUREMENT_INCOMPLETE, f"log directory {path} has failed", f"broker/{broker}")
        for broker, path in offline
    ]
    return list(dict.fromkeys(faults))


def _build_missing(subject: str, error: EvenkeelError, kept: Collection[int]) -> Fault:
    if error.reason is not Reason.BROKERS_UNREACHABLE:
        return Fault(error.reason, error.message, subject)
    if not subject:
        # Any broker could have answered; what was said last stands in, and the cluster counts as measured.
        return Fault(error.reason, f"{error.message.split(':')[0]}: no broker answers in time", ANY_BROKER)
    what = f"{subject.replace('/', ' ')} does not answer"
    if subject in {f"broker/{broker}" for broker in kept}:
        what += f": what it said last is used for {KEPT_INTERVALS} intervals, then what lies on it is unknown"
    return Fault(error.reason, what, subject)


def _refused_throttles(measurement: Measurement) -> Iterable[Fault]:
    """One fault for all brokers: it is one right."""
    for rates in measurement.throttles.values():
        if isinstance(rates, EvenkeelError) and rates.reason is Reason.AUTHORIZATION_MISSING:
            message = "replication throttles need the right DescribeConfigs on the Cluster"
            yield Fault(Reason.AUTHORIZATION_MISSING, message)
            return
