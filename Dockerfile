# Two images: `control` (operator, keeper) and `data` (producer, sealer, loader, node cache).
#
# The build needs no network: `scripts/images` downloads the wheels beforehand and lays them beside the
# project's own wheel. BASE_IMAGE is any Debian 12 with python3 3.11 and its venv module.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build-control
COPY wheels/control /wheels
# Byte code is a third of the size and mostly of modules that nobody loads; the root is read-only at run
# time, so keep that of the modules that importing what we use loads. The generated calls of the Kubernetes
# client are loaded only when used, and nobody here uses them: kube/ sends its own requests.
RUN python3 -m venv /opt/evenkeel \
 && /opt/evenkeel/bin/pip install --no-index --no-cache-dir --no-deps --no-compile /wheels/*.whl \
 && /opt/evenkeel/bin/pip uninstall --yes pip setuptools \
 && cd /opt/evenkeel/lib/python3*/site-packages && rm -rf kubernetes/client/api kubernetes/aio/client/api \
 && find . -type d \( -name tests -o -name test -o -name __pycache__ \) -prune -exec rm -rf {} + \
 && /opt/evenkeel/bin/python3 -c "import aiohttp.web, confluent_kafka.admin, kafka, kopf, kubernetes.aio.client, \
kubernetes.aio.config, prometheus_client, pydantic, rich.table, rich.progress, scipy.optimize, scipy.sparse, yaml"
COPY project/ /project
RUN cd /opt/evenkeel/lib/python3*/site-packages && python3 -m zipfile -e /project/*.whl . \
 && python3 -m compileall -q evenkeel

FROM ${BASE_IMAGE} AS control
COPY --from=build-control /opt/evenkeel /opt/evenkeel
ENV PATH=/opt/evenkeel/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
ENTRYPOINT ["python3", "-m", "evenkeel"]

FROM ${BASE_IMAGE} AS build-data
COPY wheels/data /wheels
# Flight and the sources of Arrow are used by nobody here.
RUN python3 -m venv /opt/evenkeel \
 && /opt/evenkeel/bin/pip install --no-index --no-cache-dir --no-deps --no-compile /wheels/*.whl \
 && /opt/evenkeel/bin/pip uninstall --yes pip setuptools \
 && cd /opt/evenkeel/lib/python3*/site-packages && rm -rf kubernetes/client/api kubernetes/aio/client/api \
 && cd pyarrow && rm -rf include src includes *.pyx *.pxi libarrow_flight* libarrow_python_flight* _flight* && cd .. \
 && find . -type d \( -name tests -o -name test -o -name __pycache__ \) -prune -exec rm -rf {} + \
 && /opt/evenkeel/bin/python3 -c "import aiohttp.web, confluent_kafka.admin, grpc.aio, kubernetes.aio.client, \
kubernetes.aio.config, numpy, prometheus_client, pyarrow.ipc, pydantic"
COPY project/ /project
RUN cd /opt/evenkeel/lib/python3*/site-packages && python3 -m zipfile -e /project/*.whl . \
 && python3 -m compileall -q evenkeel

FROM ${BASE_IMAGE} AS data
COPY --from=build-data /opt/evenkeel /opt/evenkeel
ENV PATH=/opt/evenkeel/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
ENTRYPOINT ["python3", "-m", "evenkeel"]
