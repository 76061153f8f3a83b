# Tailrace with Java, as a user without privileges. The store is the volume /data.
#
#   docker build -t tailrace .
#   docker run -v shop:/data tailrace init /data/store
#   docker run -v shop:/data --stop-timeout 120 tailrace run /data/store

FROM python:3.12-slim

COPY pyproject.toml README.md LICENSE constraints.txt /src/
COPY tailrace /src/tailrace
RUN pip install --no-cache-dir -c /src/constraints.txt "/src[java]" \
    && rm -rf /src \
    && useradd --uid 10001 --create-home tailrace \
    && install --directory --owner tailrace --mode 0700 /data

USER tailrace
WORKDIR /data
VOLUME /data
ENV LANG=C.UTF-8 TAILRACE_LOG=json

HEALTHCHECK --interval=60s --timeout=30s --start-period=60s CMD ["tailrace", "status", "/data/store"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["tailrace"]
CMD ["run", "/data/store"]
