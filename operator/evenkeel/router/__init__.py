"""The producer-side library: `Producer` has confluent_kafka's interface and keeps the disks level."""

from evenkeel.router.producer import Producer
from evenkeel.router.stats import RouterStats, TopicStats

__all__ = ["Producer", "RouterStats", "TopicStats"]
