"""What a command reads and writes in one namespace, with errors that say what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import ValidationError

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.meta import Resource as Model
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.errors import ConfigurationError, EvenkeelError, InputError
from evenkeel.kube.client import Kube, Object
from evenkeel.kube.failures import KindAbsentError
from evenkeel.kube.resources import BALANCED_CLUSTER, REBALANCE_PLAN, Resource
from evenkeel.reasons import ConditionType, Reason

Kind = TypeVar("Kind", bound=Model)
STANDING_BY = (Reason.CONFLICT, Reason.INVALID_SPEC, Reason.CLUSTER_NOT_FOUND)
"""Reasons of plans that keep no other plan waiting."""
_SIGN_IN = "HTTP 401"


class RefusedError(EvenkeelError):
    """What was asked for is not done, for a reason that is no mistake of the words."""


class Session:
    """Clusters and plans of one namespace.

    All methods raise ConfigurationError where a right or a kind is missing, and says which; RetryableError
    where the API server does not answer.
    """

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self.namespace = namespace

    async def list_clusters(self) -> list[BalancedCluster]:
        """By name."""
        with _naming("list", BALANCED_CLUSTER, self.namespace):
            found = await self._kube.list(BALANCED_CLUSTER, namespace=self.namespace)
        return sorted((_parse(BalancedCluster, item) for item in found), key=lambda one: one.metadata.name)

    async def find_cluster(self, name: str | None) -> BalancedCluster:
        """The cluster of this name, or the only one.

        Raises:
            InputError: there is none, or several and no name; lists their names.
        """
        clusters = await self.list_clusters()
        found = [one for one in clusters if name in (None, one.metadata.name)]
        if len(found) == 1:
            return found[0]
        there = ", ".join(one.metadata.name for one in clusters) or "none"
        if name is None and clusters:
            message = f"namespace {self.namespace} has several BalancedClusters: name one of {there}"
        else:
            wanted = f"BalancedCluster {name}" if name else "BalancedCluster"
            message = (
                f"namespace {self.namespace} has no {wanted} (there: {there}); -n names another namespace"
            )
        raise InputError(message, reason=Reason.CLUSTER_NOT_FOUND)

    async def list_plans(self) -> list[RebalancePlan]:
        """The oldest first."""
        with _naming("list", REBALANCE_PLAN, self.namespace):
            found = await self._kube.list(REBALANCE_PLAN, namespace=self.namespace)
        return sorted((_parse(RebalancePlan, item) for item in found), key=_age)

    async def find_open(self, cluster: str) -> RebalancePlan | None:
        """The open plan of a cluster: the oldest that is not finished."""
        return pick_open(await self.list_plans(), cluster)

    async def find_plan(self, name: str | None) -> RebalancePlan:
        """The plan of this name, or the open one where only one cluster has one.

        Raises:
            InputError: there is none, or several are open and none is named; lists their names.
        """
        plans = await self.list_plans()
        clusters = sorted({one.spec.cluster_ref.name for one in plans})
        opened = [one for cluster in clusters if (one := pick_open(plans, cluster)) is not None]
        wanted = opened if name is None else [one for one in plans if one.metadata.name == name]
        if len(wanted) == 1:
            return wanted[0]
        still = ", ".join(sorted(one.metadata.name for one in opened)) or "none"
        if len(wanted) > 1:
            message = f"namespace {self.namespace} has several open plans: name one of {still}"
        else:
            what = "no open RebalancePlan" if name is None else f"no RebalancePlan {name} (open: {still})"
            message = f"namespace {self.namespace} has {what}; `kubectl evenkeel plan` says why"
        raise InputError(message, reason=Reason.NOTHING_TO_DO)

    async def read_plan(self, name: str) -> RebalancePlan | None:
        """The plan as it is now; None: it is gone."""
        item = await self.read_object(name)
        return None if item is None else _parse(RebalancePlan, item)

    async def read_object(self, name: str) -> Object | None:
        """The plan as stored."""
        with _naming("get", REBALANCE_PLAN, self.namespace):
            return await self._kube.get(REBALANCE_PLAN, name, self.namespace)

    async def write_approval(self, plan: RebalancePlan, approval: str) -> None:
        """Decide the plan, if it is still the very object that was read.

        Raises:
            ConflictError: it has changed since.
        """
        meta = {"uid": plan.metadata.uid, "resourceVersion": plan.metadata.resource_version}
        body = {"metadata": meta, "spec": {"approval": approval}}
        with _naming("patch", REBALANCE_PLAN, self.namespace):
            await self._kube.patch_merge(REBALANCE_PLAN, plan.metadata.name, body, self.namespace)

    async def write_state(self, cluster: BalancedCluster, state: str) -> None:
        """Pause or resume the cluster; ConflictError if it was deleted and made again."""
        body = {"metadata": {"uid": cluster.metadata.uid}, "spec": {"state": state}}
        with _naming("patch", BALANCED_CLUSTER, self.namespace):
            await self._kube.patch_merge(BALANCED_CLUSTER, cluster.metadata.name, body, self.namespace)

    async def follow_plan(self, plan: RebalancePlan) -> AsyncIterator[RebalancePlan | None]:
        """The plan at each change; None: it was deleted. Never ends."""
        selector = f"metadata.name={plan.metadata.name}"
        with _naming("watch", REBALANCE_PLAN, self.namespace):
            changes = self._kube.watch(
                REBALANCE_PLAN, namespace=self.namespace, field_selector=selector, optional=True
            )
            async for kind, item in changes:
                found = _parse(RebalancePlan, item)
                gone = kind == "DELETED" or found.metadata.uid != plan.metadata.uid
                yield None if gone else found


def pick_open(plans: Sequence[RebalancePlan], cluster: str) -> RebalancePlan | None:
    """The plan of a cluster that is decided or carried out: one that has begun, else the oldest that does not wait."""
    some = [one for one in plans if one.spec.cluster_ref.name == cluster and _may_be_open(one)]
    return min(some, key=lambda one: (not one.has_begun, *_age(one)), default=None)


def _may_be_open(plan: RebalancePlan) -> bool:
    ready = plan.status.condition(ConditionType.READY)
    waits = ready is not None and ready.reason in STANDING_BY
    return not plan.is_finished and plan.metadata.deletion_timestamp is None and not waits


def _age(plan: RebalancePlan) -> tuple[float, str]:
    made = plan.metadata.creation_timestamp
    return (0.0 if made is None else made.timestamp(), plan.metadata.name)


def _parse(model: type[Kind], item: dict[str, Any]) -> Kind:
    try:
        return model.model_validate(item)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{item.get('kind')} {item['metadata']['name']}: {where}: {first['msg']}; is kubectl-evenkeel as new as"
            " the operator?",
            reason=Reason.INVALID_SPEC,
        ) from error


@contextmanager
def _naming(verb: str, resource: Resource, namespace: str) -> Iterator[None]:
    """Say what is missing in the words of who can mend it."""
    what = f"{resource.plural}.{names.API_GROUP}"
    try:
        yield
    except KindAbsentError as error:
        raise ConfigurationError(
            f"the API server does not know {what}: install or upgrade Evenkeel's CRDs",
            reason=Reason.CRD_OLDER_THAN_OPERATOR,
        ) from error
    except ConfigurationError as error:
        if _SIGN_IN in error.message:
            message = f"the API server does not know who you are: sign in again ({error.message})"
        else:
            message = f"you may not {verb} {what} in namespace {namespace}: ask for a role with that verb ({error.message})"
        raise ConfigurationError(message, reason=error.reason) from error
