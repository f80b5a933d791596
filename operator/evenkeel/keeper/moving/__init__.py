"""Runs approved moves: decides from what Kafka shows and what was journaled, and does one step after another."""
