# SPDX-License-Identifier: Apache-2.0
# rnnserve in an image without shell or package manager.
#   docker build -t rnnserve .
#   docker run --read-only --cap-drop=ALL -p 50051:50051 -p 127.0.0.1:9464:9464 -v /srv/models:/models:ro rnnserve
# What follows the image's name replaces CMD: repeat the flags of CMD that you want to keep.
# For NVIDIA GPUs both are bases with CUDA 13 and cuDNN 9: docs/gpu.md.
ARG BUILD_BASE=debian:bookworm-slim
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY setup.sh ./
RUN ./setup.sh --server && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release -DRNNSERVE_BUILD_TESTS=OFF && cmake --build --preset release --target rnnserve
# The program, and every library it needs, at the place where it was found.
RUN install -D -s build/release/server/rnnserve /out/usr/bin/rnnserve \
    && ldd /out/usr/bin/rnnserve | awk '/=> \//{print $3}' | sort -u >/tmp/libraries \
    && while read -r library; do install -D -m 644 "$library" "/out/usr/lib/${library#*/lib/}"; done </tmp/libraries \
    && mkdir -p /out/models
# The plugin, if the base has the CUDA toolkit; the libraries it needs are those of the final base.
RUN if grep -q librnnserve_cuda.so build/release/build.ninja; then \
        cmake --build --preset release --target rnnserve_cuda \
        && install -D -s build/release/engine/cuda/librnnserve_cuda.so /out/usr/lib/librnnserve_cuda.so; \
    fi

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rnnserve" \
      org.opencontainers.image.description="gRPC inference server for recurrent operators (LSTM, GRU, RNN)" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/ /
USER 65532:65532
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/usr/bin/rnnserve", "healthcheck"]
ENTRYPOINT ["/usr/bin/rnnserve"]
CMD ["--listen=0.0.0.0:50051", "--admin_listen=0.0.0.0:9464", "--models=/models"]
