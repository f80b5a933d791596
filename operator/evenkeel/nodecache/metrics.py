"""Metrics of the node cache, as the other processes name theirs: `evenkeel_cache_...`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY = CollectorRegistry()
UPLOADED = Counter("evenkeel_cache_uploaded_bytes", "Bytes of shards taken from loaders.", registry=REGISTRY)
REFUSED = Counter("evenkeel_cache_refused", "Requests refused, by reason.", ["reason"], registry=REGISTRY)
REVISIONS = Gauge("evenkeel_cache_revisions", "Wanted revisions, by state.", ["state"], registry=REGISTRY)
DISK_TOTAL = Gauge("evenkeel_cache_disk_total_bytes", "Size of the cache's disk.", registry=REGISTRY)
DISK_USABLE = Gauge(
    "evenkeel_cache_disk_usable_bytes",
    "What the cache's disk has left, less reservations.",
    registry=REGISTRY,
)
CORRUPT = Counter("evenkeel_cache_corrupt_shards", "Shards that a scrub took out.", registry=REGISTRY)
