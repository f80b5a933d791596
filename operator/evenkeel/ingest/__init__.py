"""The producer and sealer jobs: from a source to a sealed revision, each record exactly once."""
