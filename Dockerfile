# A Skep server on RocksDB. The data is in the volume /data.
#
#   docker build --tag skep .
#   docker run --rm --publish 127.0.0.1:6632:6632 --volume skep-data:/data \
#       --env SKEP_ALLOW_ANONYMOUS=true skep
#
# In a container the server listens on all addresses, so it requires authentication and TLS unless
# SKEP_ALLOW_ANONYMOUS is set; publish the port on 127.0.0.1 only in that case.
#
# The installation is packaging/install.sh, which `make check-install` runs without Docker.

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY src src
COPY packaging/install.sh packaging/install.sh
RUN sh packaging/install.sh /opt/skep /src

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin skep \
    && install --directory --owner skep --group skep --mode 0700 /data
COPY --from=build /opt/skep /opt/skep
ENV PATH=/opt/skep/bin:$PATH \
    SKEP_STORE=/data/store \
    SKEP_HOST=0.0.0.0
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 6632
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:6632/health/ready')"]
ENTRYPOINT ["skep"]
CMD ["serve"]
