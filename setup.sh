#!/usr/bin/env bash
# Installs what a build needs on Debian 12 or 13 (as root or with sudo), and the Python environment .venv.
#   ./setup.sh            build, client and examples
#   ./setup.sh --tests    the same and what the tests need
#   ./setup.sh --speech   build, client and examples, and what the speech example needs: its recordings and a detector
#   ./setup.sh --campaigns  as --tests, and what the longer campaigns need (Go, Java, Ruby, compose)
#   ./setup.sh --server   Debian packages for the server alone, no Python environment
# Safe to run again: what is there is left alone.
set -euo pipefail
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
refuse() {
  echo "${0##*/}: $1; see ${0##*/} --help" >&2
  exit 2
}
cd "$(dirname "$0")"
[ $# -le 1 ] || refuse "one argument, not $#"
case ${1:-} in
  '' | --tests | --speech | --campaigns | --server) ;;
  --help | -h) usage; exit ;;
  *) refuse "unknown argument $1" ;;
esac
tests=
case ${1:-} in --tests | --campaigns) tests=1 ;; esac
speech=
[ "${1:-}" = --speech ] && speech=1

packages=(g++ cmake ninja-build ccache pkg-config python3 python3-venv
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev libssl-dev libre2-dev
  libdnnl-dev opencl-headers ocl-icd-opencl-dev libhwy-dev libonnx-dev libxxhash-dev libspdlog-dev nlohmann-json3-dev
  prometheus-cpp-dev libcivetweb-dev zlib1g-dev libmimalloc-dev libhiredis-dev)
[ -z "$tests" ] || packages+=(libgtest-dev libgmock-dev libbenchmark-dev nginx-light haproxy openssl procps prometheus
  faketime chromium mold redis-server)
# Headers of clang 14 (omp.h among them), whose clang-tidy comes from PyPI; Debian 13 has none.
[ -z "$tests" ] || ! grep -qs '^VERSION_ID="12"' /etc/os-release || packages+=(libclang-common-14-dev libomp-14-dev)
[ -z "$speech" ] || packages+=(pocketsphinx-testdata espeak-ng)
[ "${1:-}" != --campaigns ] || packages+=(golang-go golang-google-grpc-dev golang-google-genproto-dev
  golang-github-golang-protobuf-1-5-dev protoc-gen-go protoc-gen-go-grpc default-jdk-headless libprotobuf-java ruby-grpc docker-compose)
# gRPC in Java, and what perf_analyzer is linked with.
[ "${1:-}" != --campaigns ] || ! grep -qs '^VERSION_ID="12"' /etc/os-release || packages+=(libgrpc-java
  protobuf-compiler-grpc-java-plugin libnetty-java libperfmark-java libgeronimo-annotation-1.3-spec-java libb64-0d)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${#missing[@]} Debian packages"
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  log=$(mktemp)
  ("${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}") \
    >"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
  rm -f "$log"
fi

[ "${1:-}" != --server ] || exit 0

# Debian's own python3, so that .venv does not depend on what else is on the PATH.
python=/usr/bin/python3
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install -q --disable-pip-version-check ./client/python -r client/examples/requirements.txt
# The examples' packages alone: what they depend on is not needed.
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps -r client/examples/g2p/requirements.txt \
  -r client/examples/pinyin/requirements.txt
if [ -n "$speech" ]; then
  .venv/bin/python -m pip install -q --disable-pip-version-check -r client/examples/vad/requirements.txt
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps -r client/examples/vad/package.txt
fi
[ -z "$tests" ] || .venv/bin/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt
[ "${1:-}" != --campaigns ] || .venv/bin/python -m pip install -q --disable-pip-version-check -r tests/campaigns/requirements.txt
