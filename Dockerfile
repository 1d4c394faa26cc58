FROM python:3.11-slim
COPY pyproject.toml README.md LICENSE /src/
COPY gateway /src/gateway
RUN pip install --no-cache-dir /src && useradd --system gateway && mkdir /data && chown gateway /data
USER gateway
VOLUME /data
EXPOSE 5672 8080
ENTRYPOINT ["amqp-gateway"]
CMD ["serve", "--host", "0.0.0.0", "--data-dir", "/data"]
