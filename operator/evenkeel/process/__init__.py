"""What all long-running processes have in common: logs, probes and the metrics port."""
