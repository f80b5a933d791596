"""The list of our kinds."""

from __future__ import annotations

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.balanced_topic import BalancedTopic
from evenkeel.api.meta import Resource
from evenkeel.api.node_cache import NodeCache
from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.api.training_dataset import TrainingDataset

KINDS: tuple[type[Resource], ...] = (
    BalancedCluster,
    BalancedTopic,
    RebalancePlan,
    TrainingDataset,
    NodeCache,
)
"""In the order in which a user meets them."""
