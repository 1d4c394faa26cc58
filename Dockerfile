FROM python:3.11-slim-bookworm AS source
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
ENV PYSPARK_PYTHON=/usr/local/bin/python
USER gateway
WORKDIR /home/gateway
VOLUME /data /shared

FROM source AS gateway
RUN pip install --no-cache-dir /src && useradd --system gateway && mkdir /data && chown gateway /data
USER gateway
VOLUME /data
EXPOSE 5672 8080
ENTRYPOINT ["amqp-gateway"]
CMD ["serve", "--host", "0.0.0.0", "--data-dir", "/data"]
