"""The node cache: a store of revisions on one node, and their read-only mounts into pods."""
