"""Kinds of fields that the models share: bounded strings, lists, quantities and CEL rules.

Everything here becomes part of a structural schema, so every string and list has a bound.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field
from pydantic.fields import FieldInfo

from evenkeel.errors import InputError
from evenkeel.reasons import Reason

NAME_LIMIT = 50
"""Longest name of an object of ours: names of dependents add a suffix and must fit in a label value (63)."""
TOPIC_LIMIT = 249
"""Longest topic name that Kafka takes."""
MESSAGE_LIMIT = 4096
"""Longest message of a condition: that of a job's termination message."""
SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader reads exactly."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_UNITS = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
}
_QUANTITY_PATTERN = rf"^[0-9]+({'|'.join(_UNITS)})?$"
_QUANTITY = re.compile(rf"([0-9]+)({'|'.join(_UNITS)})?")


def rule(expression: str, message: str, **more: str) -> dict[str, str]:
    """One CEL rule. `more`: `fieldPath` and `reason`, where the rule stands on an object."""
    return {"rule": expression, "message": message, **more}


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """`json_schema_extra` of a field or model with these CEL rules."""
    return {"x-kubernetes-validations": list(entries)}


def unchanging(field: str, why: str) -> dict[str, str]:
    """The rule that the value of `field` stays as it was created."""
    return rule("self == oldSelf", f"{field} must not change: {why}")


def listing(kind: str, *, most: int, least: int = 0, keys: tuple[str, ...] = ()) -> FieldInfo:
    """Bounds and merge behaviour of a list: `atomic`, `set`, or `map` with the fields `keys` as its key."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": kind}
    if keys:
        extra["x-kubernetes-list-map-keys"] = list(keys)
    bounds: FieldInfo = Field(min_length=least or None, max_length=most, json_schema_extra=extra)
    return bounds


def quantity_bytes(text: str) -> int:
    """Bytes of a quantity such as `10Gi`, `900Ki` or `1500000`.

    Raises:
        InputError: not a whole number with an optional unit.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise InputError(
            f"quantity must be a whole number with one of {', '.join(_UNITS)} or nothing, not {text!r}",
            reason=Reason.INVALID_SPEC,
        )
    number, unit = found.groups()
    return int(number) * _UNITS.get(unit, 1)


def between(field: str, least: str, most: str) -> dict[str, str]:
    """The rule that a quantity string lies within two others, bounds included."""
    low = f"quantity(self).compareTo(quantity('{least}')) >= 0"
    high = f"quantity(self).compareTo(quantity('{most}')) <= 0"
    return rule(f"{low} && {high}", f"{field} must be between {least} and {most}")


Quantity = Annotated[str, Field(max_length=20, pattern=_QUANTITY_PATTERN)]
"""Bytes as a whole number with an optional unit; `quantity_bytes` reads it."""
ResourceQuantity = Annotated[
    str, Field(max_length=20, pattern=r"^[0-9]+([.][0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")
]
"""CPU or memory of a container in Kubernetes' notation."""
ObjectName = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, pattern=rf"^{_LABEL}$")]
"""Name of an object of ours."""
DnsName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{_LABEL}([.]{_LABEL})*$")]
"""Name of a Secret, PersistentVolumeClaim or node: a DNS subdomain."""
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{_LABEL}$")]
TopicName = Annotated[str, Field(min_length=1, max_length=TOPIC_LIMIT, pattern=r"^[a-zA-Z0-9._-]+$")]
"""Kafka's own character set; `.` and `..` are refused by a rule where a topic is declared."""
Uid = Annotated[str, Field(min_length=1, max_length=64)]
Digest = Annotated[str, Field(min_length=64, max_length=64, pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 as lower-case hex."""
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
Labels = Annotated[
    dict[str, LabelValue],
    Field(
        max_length=32,
        json_schema_extra=rules(
            rule("self.all(key, key.size() <= 317)", "label keys must be at most 317 characters")
        ),
    ),
]
"""Labels that must all be present; the one map shape that Kubernetes users expect."""
BrokerId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Bytes = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Permille = Annotated[int, Field(ge=0)]
"""Thousandths; may exceed 1000 where a prediction does."""
