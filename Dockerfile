# Another image with python, pip and useradd will do: --build-arg BASE=...
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS source
COPY pyproject.toml README.md LICENSE /src/
COPY gateway /src/gateway
COPY pyspark_amqp /src/pyspark_amqp

# Spark's master, its workers and the jobs, and a gateway that seals its journal.
FROM source AS spark
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir "/src[spark]" && useradd --system --create-home gateway \
    && mkdir -p /data /shared/journal /shared/tables && chown -R gateway /data /shared
ENV PYSPARK_PYTHON=python
USER gateway
WORKDIR /home/gateway
VOLUME /data /shared

FROM source AS gateway
RUN pip install --no-cache-dir /src \
    && useradd --system --uid 999 gateway && mkdir /data && chown gateway /data
# By number, so that an orchestrator sees that it is not root.
USER 999
VOLUME /data
EXPOSE 5672 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["python", "-c", "import http.client as http; asked = http.HTTPConnection('127.0.0.1', 8080, timeout=2); asked.request('GET', '/readyz'); raise SystemExit(asked.getresponse().status != 200)"]
ENTRYPOINT ["amqp-gateway"]
CMD ["serve", "--host", "0.0.0.0", "--data-dir", "/data"]
