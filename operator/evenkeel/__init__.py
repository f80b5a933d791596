"""Evenkeel: level Kafka disks, and training data where the GPUs are."""

__version__ = "0.1.0"
