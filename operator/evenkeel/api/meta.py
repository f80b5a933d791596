"""What all kinds share: the base model, metadata, conditions and references."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from evenkeel import names
from evenkeel.api.fields import (
    MESSAGE_LIMIT,
    NAME_LIMIT,
    DnsName,
    Labels,
    LabelValue,
    NamespaceName,
    ObjectName,
    ResourceQuantity,
    listing,
    rule,
    rules,
)


def camel(name: str) -> str:
    """`from_` -> `from`, `node_uid` -> `nodeUID`, `max_fill_percent` -> `maxFillPercent`."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join("UID" if word == "uid" else word.capitalize() for word in tail)


class Base(BaseModel):
    """A part of a resource. Unknown fields are ignored: the object may be younger than this program."""

    model_config = ConfigDict(
        alias_generator=camel, populate_by_name=True, use_attribute_docstrings=True, frozen=True
    )

    def dump(self) -> dict[str, Any]:
        """As the JSON object that the API server takes; absent fields are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class State(StrEnum):
    """Whether Evenkeel acts on a resource."""

    ACTIVE = "Active"
    PAUSED = "Paused"


class ConditionStatus(StrEnum):
    """Kubernetes' three truth values."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Base):
    """One fact about the resource, in the shape of metav1.Condition."""

    type: Annotated[str, Field(max_length=63, pattern=r"^[A-Z][A-Za-z]*$")]
    """Name of the fact, such as Ready."""
    status: ConditionStatus
    """Whether it holds: True, False or Unknown."""
    observed_generation: Annotated[int, Field(ge=0)]
    """metadata.generation of the spec that this condition speaks of."""
    last_transition_time: datetime
    """When status last changed; stays as it is when only reason or message change."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Z][A-Za-z]*$")]
    """Why, as one CamelCase word; docs/runbook.md has a line on each."""
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT)]
    """The same as a sentence for people."""


Conditions = Annotated[tuple[Condition, ...], listing("map", keys=("type",), most=16)]


class Status(Base):
    """What every status begins with."""

    observed_generation: Annotated[int, Field(ge=-1)] = -1
    """metadata.generation that this status speaks of; -1 until Evenkeel has seen the object."""
    conditions: Conditions = ()
    """Facts about the object; Ready is always among them once Evenkeel has seen it."""

    def condition(self, type_: str) -> Condition | None:
        """The condition of this type, None where it is absent."""
        return next((item for item in self.conditions if item.type == type_), None)


class ObjectRef(Base):
    """An object of ours, perhaps in another namespace."""

    name: ObjectName
    """Name of the object."""
    namespace: NamespaceName | None = None
    """Its namespace; default: that of the referring object."""


class LocalRef(Base):
    """An object of ours in the same namespace."""

    name: ObjectName
    """Name of the object."""


class SecretRef(Base):
    """A Secret in the same namespace with the keys `username` and `password`, or `tls.crt` and `tls.key`.

    It is mounted, never read through the API; a missing one is reported as SecretMissing.
    """

    secret_name: DnsName
    """Name of the Secret."""


class NamespaceSource(StrEnum):
    """Which namespaces may use a resource."""

    SAME = "Same"
    SELECTOR = "Selector"
    ALL = "All"


class NamespaceSelector(Base):
    """Namespaces by their labels."""

    match_labels: Annotated[Labels, Field(min_length=1)]
    """Labels that a namespace must carry, all of them."""


class AllowedNamespaces(Base):
    """Namespaces whose objects may use this one."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(self.from == 'Selector') == has(self.selector)",
                "selector must be set when from is Selector, and only then",
                fieldPath=".selector",
            )
        )
    )

    from_: NamespaceSource = NamespaceSource.SAME
    """Same: the object's own namespace only; Selector: those that `selector` matches, and its own; All: every one."""
    selector: NamespaceSelector | None = None
    """Which namespaces, when `from` is Selector."""


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """Effects of taints."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(Base):
    """A taint that pods tolerate, as in a pod."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Key of the taint; absent together with operator Exists: every taint."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Equal compares `value`, Exists takes any."""
    value: LabelValue | None = None
    """Value of the taint, for Equal."""
    effect: TaintEffect | None = None
    """Effect of the taint; default: every effect."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long a NoExecute taint is tolerated, in seconds; default: for ever."""


class ResourceAmounts(Base):
    """Amounts of CPU and memory."""

    cpu: ResourceQuantity | None = None
    """CPU cores as a quantity string, such as "500m" or "2"."""
    memory: ResourceQuantity | None = None
    """Memory as a quantity string, such as "512Mi"."""


class Resources(Base):
    """What each container asks for and may use; what is absent takes the operator's default."""

    requests: ResourceAmounts | None = None
    """What the scheduler reserves."""
    limits: ResourceAmounts | None = None
    """What a container may not exceed."""


class PodDefaults(Base):
    """How pods that Evenkeel makes for this object are scheduled and sized."""

    node_selector: Labels | None = None
    """Labels that a node must carry; default: any node."""
    tolerations: Annotated[tuple[Toleration, ...], listing("atomic", most=16)] = ()
    """Taints that the pods tolerate."""
    resources: Resources | None = None
    """CPU and memory of each pod's container."""


class OwnerReference(Base):
    """An object that this one goes with."""

    name: str
    uid: str
    controller: bool = False


class Metadata(Base):
    """The part of an object's metadata that Evenkeel uses."""

    name: str
    namespace: str | None = None
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    type: str
    """`string`, `integer` or `date`."""
    path: str
    """JSONPath, with its leading dot."""
    wide: bool = False
    """Shown with `-o wide` only."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a CRD says about a kind besides its schema."""

    plural: str
    short_name: str
    columns: tuple[Column, ...]
    """Between the name and the columns that all kinds have."""
    namespaced: bool = True
    name_pattern: str | None = None
    """RE2 of metadata.name; None: no rule of ours on names."""
    name_limit: int = NAME_LIMIT
    """Longest metadata.name, where there is a pattern."""


OBJECT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Names of dependents and host names of pods are made from names, so dots are out."""


class Resource(Base):
    """An object of one of our kinds. Subclasses add `spec` and `status`."""

    definition: ClassVar[Definition]

    api_version: str = names.GROUP_VERSION
    kind: str = ""
    metadata: Metadata

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for kinds without namespace."""
        parts = (self.metadata.namespace, self.metadata.name)
        return "/".join(part for part in parts if part)


_SENTENCE = re.compile(r"\s+")


def clip(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """A message on one line that fits into a condition."""
    text = _SENTENCE.sub(" ", message).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
