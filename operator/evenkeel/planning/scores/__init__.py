"""Scores: costs of partitions beside the fill of their disks (design section 5, point 3)."""
