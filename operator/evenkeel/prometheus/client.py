"""Instant queries to a Prometheus server, with its errors turned into ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from evenkeel.domain.loads import Sample
from evenkeel.errors import InputError, RetryableError
from evenkeel.reasons import Reason

MOST_SERIES = 20_000
"""Of one answer: a query that names every disk of a large fleet still fits, one without aggregation may not."""


class PrometheusClient:
    """One server; a context manager, not for use by two threads at once.

    Args:
        url: its base address, such as `http://prometheus.monitoring:9090`.
        timeout_seconds: for connecting, and for each pause of the answer.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._url = url
        self._timeout = timeout_seconds
        session = requests.Session()
        # A redirect would lead to an address that nobody declared.
        session.max_redirects = 0
        # A cycle later the question is asked again: no retries within.
        self._client: Any = PrometheusConnect(
            url, session=session, retry=Retry(total=0, redirect=False), timeout=timeout_seconds
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def query(self, expression: str) -> tuple[Sample, ...]:
        """What an expression gives now: one sample per series.

        Raises:
            RetryableError: PROMETHEUS_UNREACHABLE: no answer, or none that Prometheus would give.
            InputError: PROMETHEUS_QUERY_REFUSED: the server does not understand the expression, or its answer is
                no vector or too long.
        """
        params = {"timeout": f"{self._timeout:g}s"}
        try:
            found = self._client.custom_query(expression, params=params)
        except PrometheusApiClientException as error:
            raise self._explain(str(error)) from error
        except requests.RequestException as error:
            what = f"{self._url}: {_first_words(error)}"
            raise RetryableError(what, reason=Reason.PROMETHEUS_UNREACHABLE) from error
        except (ValueError, KeyError, TypeError) as error:
            what = f"{self._url} does not answer like Prometheus"
            raise RetryableError(what, reason=Reason.PROMETHEUS_UNREACHABLE) from error
        return tuple(self._read(found))

    def _explain(self, text: str) -> InputError | RetryableError:
        # The client gives no code but `HTTP Status Code 400 (b'...')`.
        if any(f"Status Code {code}" in text for code in (400, 422)):
            return InputError(
                f"{self._url} refuses the query: {text[:300]}", reason=Reason.PROMETHEUS_QUERY_REFUSED
            )
        return RetryableError(f"{self._url}: {text[:300]}", reason=Reason.PROMETHEUS_UNREACHABLE)

    def _read(self, found: Any) -> list[Sample]:
        if not isinstance(found, list) or len(found) > MOST_SERIES:
            what = f"{self._url}: the query must give a vector of at most {MOST_SERIES} series"
            raise InputError(what, reason=Reason.PROMETHEUS_QUERY_REFUSED)
        try:
            return [_build_sample(raw) for raw in found]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            what = f"{self._url}: the query gives no instant vector"
            raise InputError(what, reason=Reason.PROMETHEUS_QUERY_REFUSED) from error


def _build_sample(raw: Mapping[str, Any]) -> Sample:
    at, value = raw["value"]
    return Sample({str(k): str(v) for k, v in raw["metric"].items()}, float(value), float(at))


def _first_words(error: requests.RequestException) -> str:
    """The kind of failure: requests' own text repeats the whole query."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.TooManyRedirects):
        return "it redirects to another address, which is not followed"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted"
    return "it cannot be reached"
