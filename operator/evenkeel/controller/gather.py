"""Reads from the store what each planner needs, and hands it over as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from evenkeel import names
from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.balanced_topic import BalancedTopic
from evenkeel.api.plan_content import read_batches
from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.controller import gates, loading, triggers
from evenkeel.controller.cluster import ClusterInput, plan_cluster
from evenkeel.controller.conditions import Condition, Status
from evenkeel.controller.dataset import DatasetInput, plan_dataset
from evenkeel.controller.desired import belongs, build_connection, build_desired, data_topic, owners
from evenkeel.controller.jobs import JobView, view_job
from evenkeel.controller.loop import Planner
from evenkeel.controller.nodes import NodeView, eligible_nodes, view_node
from evenkeel.controller.places import find_places
from evenkeel.controller.plan import Moment, Plan, Removal
from evenkeel.controller.plans import Plans, tell_open
from evenkeel.controller.pods import Images
from evenkeel.controller.preload import PreloadInput, plan_preload
from evenkeel.controller.rebalance import PlanInput, plan_rebalance
from evenkeel.controller.references import Asker, Choice, admits_asker, choose_cluster
from evenkeel.controller.refusal import plan_refusal
from evenkeel.controller.store import Key, Object, Store
from evenkeel.controller.topic import TopicInput, plan_topic
from evenkeel.controller.views import Views
from evenkeel.domain.exchange import Report
from evenkeel.errors import InputError
from evenkeel.kube import resources
from evenkeel.reasons import ConditionType, Reason

Item = TypeVar("Item", BalancedTopic, TrainingDataset)


@dataclass(frozen=True, slots=True)
class Context:
    """What all planners share."""

    views: Views
    images: Images
    installation: str


def build_planners(context: Context) -> dict[str, Planner]:
    """A planner per kind of key."""
    return {
        triggers.CLUSTER: _guarded(context, gather_cluster),
        triggers.TOPIC: _guarded(context, gather_topic),
        triggers.DATASET: _guarded(context, gather_dataset),
        triggers.PLAN: _guarded(context, gather_plan),
        triggers.PRELOAD.kind: lambda _store, _key, _at: plan_preload(gather_preload(context)),
    }


Gather = Callable[[Context, Object, Key, Moment], Plan]


def _guarded(context: Context, gather: Gather) -> Planner:
    """Nothing for an object that is gone; a condition for one that cannot be read."""

    def plan(store: Store, key: Key, at: Moment) -> Plan | None:
        item = store.get(key.kind, key.namespace, key.name)
        if item is None:
            return None
        if _is_ending(store.get("Namespace", "", key.namespace)) and not _is_ending(item):
            return plan_ending(store, item)
        try:
            return gather(context, item, key, at)
        except InputError as error:
            return plan_refusal(item, error, at)

    return plan


def plan_ending(store: Store, item: Object) -> Plan:
    """In a namespace that ends nothing can be made, and what is there goes with it: all but our Jobs at once.

    Kubernetes deletes pods first and waits for them. The job controller lets a failed pod of an index go only
    when its replacement is there (KEP-3850), which cannot be made any more: without its Job it lets go.
    """
    meta = item["metadata"]
    jobs = store.labelled("Job", names.LABEL_DATASET_UID, meta["uid"], meta["namespace"])
    living = (job["metadata"] for job in jobs if not job["metadata"].get("deletionTimestamp"))
    removals = (Removal(resources.JOB, meta["namespace"], one["name"], one["uid"]) for one in living)
    return Plan(removals=tuple(removals))


def _is_ending(item: Object | None) -> bool:
    return item is not None and "deletionTimestamp" in item["metadata"]


def gather_cluster(context: Context, item: Object, key: Key, at: Moment) -> Plan:
    """The plan of one BalancedCluster."""
    views = context.views
    cluster = views.cluster(key.namespace, key.name)
    assert cluster is not None
    report, problem = _read_report(views, cluster)
    topics = [
        one
        for one in _admitted(views, cluster, views.topics())
        if one.status.cluster_ref is not None or _will_belong(views, one, cluster)
    ]
    places = find_places(cluster, views.broker_pods(cluster), report)
    plans = _find_plans(views, cluster)
    return plan_cluster(
        ClusterInput(
            item=item,
            cluster=cluster,
            desired=build_desired(
                cluster,
                topics,
                _admitted(views, cluster, views.datasets()),
                context.installation,
                elsewhere=views.managed_elsewhere(topics, cluster),
                places=places.known,
                plan=tell_open(plans, at.now),
                propose=plans.rejection(at.now) is None,
            ),
            plans=plans,
            namespace_ends=_is_ending(views.store.get("Namespace", "", key.namespace)),
            report=report,
            report_problem=problem,
            places_problem=places.problem,
            deployment=views.store.get("Deployment", key.namespace, names.keeper_name(key.name)),
            images=context.images,
        ),
        at,
    )


def gather_topic(context: Context, item: Object, key: Key, at: Moment) -> Plan:
    """The plan of one BalancedTopic."""
    views = context.views
    topic = views.topic(key.namespace, key.name)
    assert topic is not None
    choice = _choose(views, topic)
    cluster = choice.cluster
    return plan_topic(
        TopicInput(
            item=item,
            topic=topic,
            choice=choice,
            owner=_owner(views, topic, cluster),
            manager=None if cluster is None else views.manager(topic, cluster),
            told=None if cluster is None else views.desired(cluster),
            report=None if cluster is None else _read_report(views, cluster)[0],
        ),
        at,
    )


def gather_plan(context: Context, item: Object, key: Key, at: Moment) -> Plan:
    """The plan for one RebalancePlan.

    Raises:
        InputError: it holds a move that is none.
    """
    views = context.views
    plan = views.plan(key.namespace, key.name)
    assert plan is not None
    batches = read_batches(plan.spec)
    cluster = views.cluster(key.namespace, plan.spec.cluster_ref.name)
    report = None if cluster is None else _read_report(views, cluster)[0]
    told = None if report is None else report.plan
    return plan_rebalance(
        PlanInput(
            item=item,
            plan=plan,
            batches=batches,
            plans=None if cluster is None else _find_plans(views, cluster),
            report=told if told is not None and told.uid == plan.metadata.uid else None,
        ),
        at,
    )


def _find_plans(views: Views, cluster: BalancedCluster) -> Plans:
    name = cluster.metadata.name
    try:
        told = views.desired(cluster)
    except InputError:
        # Of another version of ours: it is written anew.
        told = None
    report = _read_report(views, cluster)[0]
    return Plans(
        cluster=cluster,
        items=tuple(
            one for one in views.plans(cluster.metadata.namespace) if one.spec.cluster_ref.name == name
        ),
        told=told.plan.uid if told is not None and told.plan is not None else None,
        kafka_id=(report.cluster_id if report is not None else None) or cluster.status.cluster_id,
    )


def gather_dataset(context: Context, item: Object, key: Key, at: Moment) -> Plan:
    """The plan of one TrainingDataset."""
    views = context.views
    dataset = views.dataset(key.namespace, key.name)
    assert dataset is not None
    topic, problem = _find_topic(views, dataset)
    choice = _choose(views, dataset if topic is None else topic)
    jobs, pods = _work(views, dataset)
    borrowed = data_topic(dataset, {} if topic is None else {(key.namespace, topic.metadata.name): topic})
    connection = None if choice.cluster is None else build_connection(choice.cluster, folder="dataset")
    nodes = _nodes(views) if (item["spec"].get("preload") or {}).get("mode", "Disabled") != "Disabled" else []
    preload = loading.LoadingInput(
        dataset=dataset,
        nodes=tuple(eligible_nodes(dataset, nodes)),
        caches={cache.metadata.name: cache for cache in views.caches()} if nodes else {},
        jobs=jobs,
        pods=pods,
        connection=connection,
        data_topic=borrowed,
        images=context.images,
    )
    return plan_dataset(
        DatasetInput(
            item=item,
            dataset=dataset,
            choice=choice,
            topic_problem=problem,
            data_topic=borrowed,
            report=None if choice.cluster is None else _read_report(views, choice.cluster)[0],
            jobs=jobs,
            pods=pods,
            preload=preload,
            images=context.images,
        ),
        at,
    )


def gather_preload(context: Context) -> PreloadInput:
    """The input for all caches together."""
    views = context.views
    loaders = {}
    for account in views.store.labelled("ServiceAccount", names.LABEL_COMPONENT, loading.COMPONENT):
        loaders[account["metadata"]["labels"].get(names.LABEL_DATASET_UID, "")] = account["metadata"]["uid"]
    pods = [
        pod for pod in views.store.all("Pod") if names.LABEL_DATASET in (pod["metadata"].get("labels") or {})
    ]
    open_ones = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    gated = (gates.view_pod(pod) for pod in open_ones)
    return PreloadInput(
        nodes=tuple(_nodes(views)),
        caches={cache.metadata.name: cache for cache in views.caches()},
        datasets=tuple(views.datasets()),
        loaders=loaders,
        gated=tuple(pod for pod in gated if pod is not None),
        asked=frozenset(
            (pod["metadata"]["namespace"], name) for pod in open_ones for name in gates.datasets_of(pod)
        ),
    )


def _nodes(views: Views) -> list[NodeView]:
    caches = {cache.metadata.name: cache for cache in views.caches()}
    found = (view_node(item, caches.get(item["metadata"]["name"])) for item in views.store.all("Node"))
    return sorted(found, key=lambda node: node.name)


def _choose(views: Views, item: BalancedTopic | TrainingDataset) -> Choice:
    return choose_cluster(_asker(views, item), views.clusters())


def _asker(views: Views, item: BalancedTopic | TrainingDataset) -> Asker:
    namespace = item.metadata.namespace or ""
    return Asker(namespace, views.namespace_labels(namespace), item.spec.cluster_ref, item.status.cluster_ref)


def _admitted(views: Views, cluster: BalancedCluster, items: Iterable[Item]) -> list[Item]:
    """Those whose namespace the cluster admits today: status.clusterRef outlives a permission."""
    return [one for one in items if admits_asker(cluster, _asker(views, one))]


def _owner(views: Views, topic: BalancedTopic, cluster: BalancedCluster | None) -> str:
    """Key of the resource that speaks for the topic, of those that declare it in the same cluster."""
    if cluster is None:
        return topic.key
    rivals = [
        other
        for other in _admitted(views, cluster, views.topics_named(topic.spec.topic_name))
        if other.metadata.uid == topic.metadata.uid
        or belongs(other.status.cluster_ref, other, cluster)
        or _will_belong(views, other, cluster)
    ]
    return owners(rivals)[0].key if rivals else topic.key


def _will_belong(views: Views, topic: BalancedTopic, cluster: BalancedCluster) -> bool:
    """Whether a topic that was just made is about to be given this cluster."""
    if topic.status.cluster_ref is not None:
        return False
    chosen = _choose(views, topic).cluster
    return chosen is not None and chosen.metadata.uid == cluster.metadata.uid


def _find_topic(views: Views, dataset: TrainingDataset) -> tuple[BalancedTopic | None, Condition | None]:
    """The BalancedTopic that topicRef names, or what is wrong with it."""
    ref = dataset.spec.topic_ref
    if ref is None:
        return None, None
    namespace = dataset.metadata.namespace or ""
    topic = views.topic(namespace, ref.name)
    if topic is None:
        return None, _bad_topic(Reason.TOPIC_MISSING, f"topicRef: BalancedTopic {ref.name} does not exist")
    users = [one for one in views.datasets(namespace) if one.spec.topic_ref == ref]
    if users[0].metadata.uid != dataset.metadata.uid:
        message = f"topicRef: BalancedTopic {ref.name} is used by the older TrainingDataset {users[0].metadata.name}"
        return topic, _bad_topic(Reason.CONFLICT, message)
    return topic, None


def _bad_topic(reason: Reason, message: str) -> Condition:
    return Condition(ConditionType.READY, Status.FALSE, reason, message)


def _work(views: Views, dataset: TrainingDataset) -> tuple[tuple[JobView, ...], tuple[Object, ...]]:
    """Jobs and pods that were made for the dataset."""
    uid, namespace = dataset.metadata.uid, dataset.metadata.namespace
    jobs = views.store.labelled("Job", names.LABEL_DATASET_UID, uid, namespace)
    pods = views.store.labelled("Pod", names.LABEL_DATASET_UID, uid, namespace)
    living = (job for job in jobs if not job["metadata"].get("deletionTimestamp"))
    return tuple(sorted((view_job(job) for job in living), key=lambda one: one.name)), tuple(pods)


def _read_report(views: Views, cluster: BalancedCluster) -> tuple[Report | None, str]:
    try:
        return views.report(cluster), ""
    except InputError as error:
        return None, error.message
