"""Kubernetes objects of a small Prometheus and a node exporter on every worker. Pure."""

from __future__ import annotations

import json
from typing import Any

NAMESPACE = "monitoring"
NAME = "prometheus"
EXPORTER = "node-exporter"
PORT = 9090
EXPORTER_PORT = 9100
URL = f"http://{NAME}.{NAMESPACE}:{PORT}"
USER = 65534
SCRAPE_SECONDS = 5

Object = dict[str, Any]


def build_prometheus(image: str, node_addresses: list[str]) -> list[Object]:
    """Everything, in an order in which it can be applied.

    Args:
        image: with both programs.
        node_addresses: where the exporters answer; named one by one, so that no right on the API is needed.
    """
    targets = [f"{address}:{EXPORTER_PORT}" for address in node_addresses]
    config = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": targets}]}],
    }
    meta = {"name": NAME, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        # JSON is YAML.
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {"prometheus.yml": json.dumps(config)},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": {"app": NAME}, "ports": [{"port": PORT}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": {"app": NAME}}, "template": _server_pod(image)},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": EXPORTER, "namespace": NAMESPACE},
            "spec": {"selector": {"matchLabels": {"app": EXPORTER}}, "template": _exporter_pod(image)},
        },
    ]


def _server_pod(image: str) -> Object:
    command = ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/data"]
    return {
        "metadata": {"labels": {"app": NAME}},
        "spec": {
            "securityContext": {"runAsUser": USER, "fsGroup": USER},
            "containers": [
                {
                    "name": NAME,
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": command,
                    "ports": [{"containerPort": PORT}],
                    "readinessProbe": {"httpGet": {"path": "/-/ready", "port": PORT}, "periodSeconds": 1},
                    "volumeMounts": [
                        {"name": "config", "mountPath": "/etc/prometheus"},
                        {"name": "data", "mountPath": "/data"},
                    ],
                }
            ],
            "volumes": [{"name": "config", "configMap": {"name": NAME}}, {"name": "data", "emptyDir": {}}],
        },
    }


def _exporter_pod(image: str) -> Object:
    """On the node's network, where its host name is the node's: node_uname_info tells it."""
    return {
        "metadata": {"labels": {"app": EXPORTER}},
        "spec": {
            "hostNetwork": True,
            "containers": [
                {
                    "name": EXPORTER,
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": ["prometheus-node-exporter", f"--web.listen-address=:{EXPORTER_PORT}"],
                    "readinessProbe": {
                        "httpGet": {"path": "/metrics", "port": EXPORTER_PORT},
                        "periodSeconds": 1,
                        "timeoutSeconds": 5,
                    },
                }
            ],
        },
    }
