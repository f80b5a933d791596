"""What is said of an object that cannot be read, or whose children may not be written. Pure."""

from __future__ import annotations

from evenkeel.controller.conditions import build_conditions, ready, transitions
from evenkeel.controller.plan import Moment, Plan, Saying
from evenkeel.controller.store import Object
from evenkeel.errors import EvenkeelError


def plan_refusal(item: Object, error: EvenkeelError, at: Moment) -> Plan:
    """Only conditions that say what is wrong; the rest of status stays."""
    conditions = ready(error.reason, error.message, stalled=True)
    status = dict(item.get("status") or {})
    present = status.get("conditions") or ()
    generation = item["metadata"].get("generation", 0)
    status["observedGeneration"] = generation
    status["conditions"] = build_conditions(present, conditions, generation, at)
    notes = transitions(present, conditions, "Reconcile")
    return Plan(status=status, sayings=tuple(Saying(item, note) for note in notes))
