"""The one place that talks to the Kubernetes API server."""
