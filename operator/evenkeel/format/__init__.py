"""How records become messages, shard files and manifests. Only `arrow` needs pyarrow."""
