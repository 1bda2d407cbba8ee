#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the image and runs it as docs/operations.md says: under 150 MB, not root, nothing writable, healthy, leaves with 0
# on SIGTERM.
#   tests/campaigns/image.sh                                     with docker
#   RNNSERVE_IMAGE_TOOLS=DIR tests/campaigns/image.sh            with DIR/build-image.sh and DIR/run-image.sh
#   ... image.sh BUILD_BASE=debian:trixie-slim BASE=gcr.io/distroless/cc-debian13:nonroot        on Debian 13
set -euo pipefail
cd "$(dirname "$0")/../.."
tag=rnnserve:image-test name=rnnserve-image-test

if [ -n "${RNNSERVE_IMAGE_TOOLS:-}" ]; then
  arguments=()
  for argument in "$@"; do arguments+=(-a "$argument"); done
  engine=("$RNNSERVE_IMAGE_TOOLS/run-image.sh")
  [ -n "${RNNSERVE_IMAGE_BUILT:-}" ] || "$RNNSERVE_IMAGE_TOOLS/build-image.sh" "${arguments[@]}" . "$tag"
else
  arguments=()
  for argument in "$@"; do arguments+=(--build-arg "$argument"); done
  engine=(docker)
  [ -n "${RNNSERVE_IMAGE_BUILT:-}" ] || docker build "${arguments[@]}" -t "$tag" .
fi
tag=${RNNSERVE_IMAGE_BUILT:-$tag}

fail() { echo "FAILED: $*" >&2; "${engine[@]}" logs "$name" >&2 || true; exit 1; }
bytes=$("${engine[@]}" image inspect --format '{{.Size}}' "$tag")
[ "$bytes" -lt 150000000 ] || fail "the image has $bytes bytes"
"${engine[@]}" rm -f "$name" >/dev/null 2>&1 || true
trap '"${engine[@]}" rm -f "$name" >/dev/null 2>&1 || true' EXIT
began=$(date +%s%N)
"${engine[@]}" run -d --name "$name" --read-only --cap-drop=ALL --network host "$tag" \
  --listen=127.0.0.1:50951 --admin_listen=127.0.0.1:50952 --drain_timeout=5s >/dev/null
for _ in $(seq 200); do
  "${engine[@]}" exec "$name" /usr/bin/rnnserve healthcheck ready >/dev/null 2>&1 && break
done
ready=$(( ($(date +%s%N) - began) / 1000000 ))
"${engine[@]}" exec "$name" /usr/bin/rnnserve healthcheck || fail "not healthy"
[ "$("${engine[@]}" inspect --format '{{.Config.User}}' "$name")" = 65532:65532 ] || fail "it runs as root"
! "${engine[@]}" exec "$name" /bin/sh -c true 2>/dev/null || fail "there is a shell"
"${engine[@]}" logs "$name" 2>&1 | grep "HTTP/2 frames are not closed" && fail "what gRPC reads is not guarded"
python3 - <<'PYTHON' || fail "a flood of frames does not end the connection"
import contextlib, socket, urllib.request
with socket.create_connection(("127.0.0.1", 50951), timeout=20) as peer, contextlib.suppress(OSError):
    peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + 10_000 * bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    while peer.recv(65536):
        pass
metrics = urllib.request.urlopen("http://127.0.0.1:50952/metrics", timeout=20).read().decode()
raise SystemExit("\nrnnserve_abusive_connections_total 1\n" not in metrics)
PYTHON
"${engine[@]}" exec "$name" /usr/bin/rnnserve config print | grep -q '^listen: ' || fail "config print"
"${engine[@]}" stop -t 20 "$name" >/dev/null
code=$("${engine[@]}" inspect --format '{{.State.ExitCode}}' "$name")
[ "$code" = 0 ] || fail "it left with $code on SIGTERM"
echo "image $tag: $((bytes / 1000000)) MB; ready $ready ms after docker run; left with 0"
