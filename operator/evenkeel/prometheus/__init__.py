"""The one place that talks to a Prometheus server."""
