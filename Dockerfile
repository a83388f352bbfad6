# syntax=docker/dockerfile:1
# The proxy without torch, beside a vLLM of its own; `--target learner` adds what trains, for the worker role.
# Both can keep the store in PostgreSQL.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY daemon daemon
COPY harness_adapters harness_adapters
COPY hinting hinting
COPY learner learner
COPY ops ops
RUN python -m venv /opt/secondnature \
 && /opt/secondnature/bin/pip install --no-cache-dir '.[postgres]'

FROM build AS build-learner
RUN /opt/secondnature/bin/pip install --no-cache-dir '.[learner,postgres]'

FROM python:3.12-slim AS base
RUN useradd --system --uid 10001 --create-home secondnature \
 && install -d -o secondnature /var/lib/secondnature
ENV PATH=/opt/secondnature/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SECONDNATURE_DATA_DIR=/var/lib/secondnature \
    SECONDNATURE_SERVER__HOST=0.0.0.0
USER 10001
VOLUME /var/lib/secondnature
EXPOSE 8700
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8700/healthz', timeout=2)"]
ENTRYPOINT ["secondnature"]

FROM base AS learner
COPY --from=build-learner /opt/secondnature /opt/secondnature
CMD ["serve", "--config", "/etc/secondnature/config.toml", "--roles", "worker"]

FROM base AS proxy
COPY --from=build /opt/secondnature /opt/secondnature
CMD ["serve", "--config", "/etc/secondnature/config.toml", "--roles", "proxy"]
