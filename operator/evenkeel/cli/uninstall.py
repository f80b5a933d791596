"""`evenkeel uninstall`: remove what the operator made, before the chart itself is removed.

What people declared stays as it is. Refuses while pods mount a dataset: without the node cache they
could not be ended; and while replicas move or are about to: nobody would take back the throttles.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evenkeel import names
from evenkeel.domain.moves import Approval, PlanState
from evenkeel.errors import EvenkeelError, RetryableError
from evenkeel.kube import resources
from evenkeel.kube.client import Kube
from evenkeel.kube.failures import ConflictError, KindAbsentError, NotFoundError
from evenkeel.kube.resources import OWN_KINDS, Resource

OWN_DOMAIN = f"{names.API_GROUP}/"
MANAGED = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
MADE = (
    resources.JOB,
    resources.DEPLOYMENT,
    resources.ROLE_BINDING,
    resources.ROLE,
    resources.SERVICE_ACCOUNT,
    resources.CONFIG_MAP,
)
"""Kinds that the operator makes, in the order in which they are removed."""
FINISHED = ("Succeeded", "Failed")
NAMED_AT_MOST = 5
POLL_SECONDS = 0.5
EMPTYING_SECONDS = 60.0
"""How long caches may take to empty their disks; one whose node is down never answers."""
RETRY_SECONDS = 1.0
REFUSED = 3

Object = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operator:
    """Which operator is removed."""

    namespace: str
    deployment: str
    selector: str
    """Labels of its pods."""


class RefusedError(EvenkeelError):
    """Something that must not be taken away is in use."""


def main(arguments: list[str]) -> int:
    """Exit code: 0 removed, 3 refused because pods mount a dataset or replicas move, 2 bad arguments, 1 failure."""
    options = _parse(arguments)
    operator = Operator(options.namespace, options.operator, options.selector)
    try:
        asyncio.run(_run(operator, options.timeout_seconds))
    except RefusedError as error:
        _say(f"refused: {error}")
        return REFUSED
    except (EvenkeelError, TimeoutError) as error:
        _say(f"failed, run it again: {error}")
        return 1
    return 0


async def _run(operator: Operator, seconds: float) -> None:
    kube = await Kube.connect()
    try:
        await uninstall(kube, operator, Deadline(seconds))
    finally:
        await kube.close()


class Deadline:
    """Limits everything together.

    Args:
        seconds: from now.
        clock: seconds, monotonic.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + seconds

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and `seconds` from now."""
        return Deadline(min(seconds, self._until - self._clock()), self._clock)

    async def until(self, done: Callable[[], Awaitable[str]]) -> None:
        """Ask again and again until `done` answers with nothing; what it answers is what is still waited for.

        Raises:
            TimeoutError: with the last answer.
        """
        while waited_for := await self.retry(done):
            await self._pause(POLL_SECONDS, waited_for)

    async def retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it works; errors that trying again cannot cure are raised at once."""
        while True:
            try:
                return await call()
            except RetryableError as error:
                await self._pause(RETRY_SECONDS, str(error))

    async def _pause(self, seconds: float, waited_for: str) -> None:
        if self._clock() + seconds > self._until:
            raise TimeoutError(f"still waiting for {waited_for}")
        await asyncio.sleep(seconds)


async def uninstall(kube: Kube, operator: Operator, deadline: Deadline) -> None:
    """Every step may be done again: a call that was cut off is simply repeated.

    Raises:
        RefusedError: pods mount a dataset, or a plan of moves runs or may begin.
        TimeoutError: the deadline passed; says what was waited for.
        EvenkeelError: as every call of `Kube`.
    """
    await deadline.retry(lambda: _refuse_if_used(kube))
    replicas = await deadline.retry(lambda: _scale(kube, operator, 0))
    _say(f"the operator {operator.namespace}/{operator.deployment} is told to stop")
    await deadline.until(lambda: _describe_pods(kube, operator.selector, operator.namespace))
    try:
        await deadline.retry(lambda: _refuse_if_used(kube))
    except RefusedError:
        await deadline.retry(lambda: _scale(kube, operator, replicas))
        raise
    # The caches first: they empty their disks as soon as nothing is wanted of them, while they still run.
    try:
        await deadline.within(EMPTYING_SECONDS).until(lambda: _empty_caches(kube))
    except TimeoutError as error:
        _say(f"{error}; a node that is down keeps its copies")
    await deadline.until(lambda: _remove_all(kube, resources.NODE_CACHE, ""))
    for resource in MADE:
        await deadline.until(lambda resource=resource: _remove_all(kube, resource, MANAGED))  # type: ignore[misc]
    await deadline.until(lambda: _describe_pods(kube, MANAGED))
    await deadline.until(lambda: _strip_finalizers(kube))
    await deadline.until(lambda: _strip_nodes(kube))
    await deadline.retry(lambda: kube.delete(resources.LEASE, names.LEASE_NAME, operator.namespace))
    _say("everything that the operator made is removed")


async def _refuse_if_used(kube: Kube) -> None:
    running = find_running(await _list_if_installed(kube, resources.REBALANCE_PLAN))
    if running:
        shown = ", ".join(running[:NAMED_AT_MOST])
        raise RefusedError(
            f"replicas are moved, or about to be, by RebalancePlan {shown}: wait until it is finished, or set its"
            " spec.approval to Rejected (kubectl evenkeel cancel)"
        )
    found = find_mounting(await kube.list(resources.POD))
    if found:
        more = f" and {len(found) - NAMED_AT_MOST} more" if len(found) > NAMED_AT_MOST else ""
        shown = ", ".join(found[:NAMED_AT_MOST])
        raise RefusedError(
            f"{len(found)} pods mount a dataset ({shown}{more}): let them finish, or delete them"
        )


def find_running(plans: Sequence[Object]) -> list[str]:
    """`namespace/name` of plans of moves that have begun, or may begin at any moment, and are not finished."""
    return sorted(
        f"{plan['metadata']['namespace']}/{plan['metadata']['name']}" for plan in plans if _may_run(plan)
    )


def _may_run(plan: Object) -> bool:
    """An approved one may begin before the keeper is removed; not while its cluster is paused."""
    status = plan.get("status") or {}
    state = status.get("state")
    if state == PlanState.PAUSED:
        return bool(status.get("batch", 0) > 0)
    approved = plan["spec"].get("approval") == Approval.APPROVED
    return state == PlanState.RUNNING or (approved and state != PlanState.FINISHED)


def find_mounting(pods: Sequence[Object]) -> list[str]:
    """`namespace/name` of pods on nodes that have a volume of our driver and are not finished."""
    return sorted(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in FINISHED
        and any(
            (volume.get("csi") or {}).get("driver") == names.CSI_DRIVER
            for volume in pod["spec"].get("volumes") or ()
        )
    )


async def _scale(kube: Kube, operator: Operator, replicas: int) -> int:
    """Set the number of operators -> what it was; 0 if the Deployment is gone."""
    place = (resources.DEPLOYMENT, operator.deployment)
    present = await kube.get(*place, operator.namespace)
    if present is None:
        return 0
    before = int(present["spec"].get("replicas", 1))
    await kube.patch_merge(*place, {"spec": {"replicas": replicas}}, operator.namespace)
    return before


async def _describe_pods(kube: Kube, selector: str, namespace: str | None = None) -> str:
    """What is still there of pods that have to end; pods that ended do nothing any more."""
    pods = await kube.list(resources.POD, namespace=namespace, label_selector=selector)
    alive = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in FINISHED]
    return ", ".join(f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in alive)


async def _empty_caches(kube: Kube) -> str:
    """Want nothing of any cache -> caches that still report copies."""
    found = await _list_if_installed(kube, resources.NODE_CACHE)
    for item in found:
        if item.get("spec", {}).get("wanted"):
            await kube.patch_merge(resources.NODE_CACHE, item["metadata"]["name"], {"spec": {"wanted": []}})
    holding = [item for item in found if item.get("status", {}).get("revisions")]
    return ", ".join(_describe(item) for item in holding[:NAMED_AT_MOST])


async def _remove_all(kube: Kube, resource: Resource, selector: str) -> str:
    """Delete what matches -> what is still there."""
    found = await _list_if_installed(kube, resource, selector)
    for item in found:
        meta = item["metadata"]
        if not meta.get("deletionTimestamp"):
            _say(f"delete {_describe(item)}")
            await kube.delete(resource, meta["name"], meta.get("namespace"))
    return ", ".join(_describe(item) for item in found[:NAMED_AT_MOST])


async def _strip_finalizers(kube: Kube) -> str:
    """Remove our finalizer from every object of ours -> what changed meanwhile and has to be looked at again."""
    left = []
    for resource in OWN_KINDS:
        for item in await _list_if_installed(kube, resource):
            body = build_finalizer_patch(item)
            if body is not None:
                _say(f"remove the finalizer of {_describe(item)}")
                if not await _patched(kube, resource, item, body):
                    left.append(_describe(item))
    return ", ".join(left)


async def _strip_nodes(kube: Kube) -> str:
    """Remove our labels from every node -> what changed meanwhile and has to be looked at again."""
    left = []
    for item in await kube.list(resources.NODE):
        body = build_label_patch(item)
        if body is not None:
            _say(f"remove the labels of {_describe(item)}")
            if not await _patched(kube, resources.NODE, item, body):
                left.append(_describe(item))
    return ", ".join(left)


async def _patched(kube: Kube, resource: Resource, item: Object, body: Object) -> bool:
    meta = item["metadata"]
    try:
        await kube.patch_merge(resource, meta["name"], body, meta.get("namespace"))
    except NotFoundError:
        return True
    except ConflictError:
        return False
    return True


def build_finalizer_patch(item: Object) -> Object | None:
    """A merge patch without our finalizers, refused if the list changed meanwhile; None: there are none."""
    meta = item["metadata"]
    present = meta.get("finalizers") or []
    kept = [one for one in present if not one.startswith(OWN_DOMAIN)]
    if kept == present:
        return None
    return {"metadata": {"finalizers": kept, "resourceVersion": meta["resourceVersion"]}}


def build_label_patch(node: Object) -> Object | None:
    """A merge patch that removes our labels; None: there are none."""
    domains = (OWN_DOMAIN, names.WARM_LABEL_PREFIX)
    ours = [key for key in node["metadata"].get("labels") or {} if key.startswith(domains)]
    return {"metadata": {"labels": dict.fromkeys(ours)}} if ours else None


async def _list_if_installed(kube: Kube, resource: Resource, selector: str = "") -> list[dict[str, Any]]:
    try:
        return await kube.list(resource, label_selector=selector)
    except KindAbsentError:
        return []


def _describe(item: Object) -> str:
    meta = item["metadata"]
    place = f"{meta['namespace']}/" if "namespace" in meta else ""
    return f"{item['kind']} {place}{meta['name']}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="evenkeel uninstall",
        description="Remove what the operator made. The chart runs this before it is uninstalled.",
    )
    parser.add_argument("--namespace", required=True, help="namespace of the operator")
    parser.add_argument("--operator", required=True, help="name of its Deployment")
    parser.add_argument("--selector", required=True, help="labels of its pods, as KEY=VALUE,KEY=VALUE")
    parser.add_argument("--timeout-seconds", type=float, default=240.0, help="for everything together")
    return parser.parse_args(arguments)
