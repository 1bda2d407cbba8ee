#!/usr/bin/env bash
# Builds and runs the tests.
#   ./test.sh             all of the below but quick and campaigns, in turn
#   ./test.sh quick       what is run after each edit: formatting, layers and the unit tests that take seconds
#   ./test.sh lint        formatting, sentences, layers, and clang-tidy with its analysis of the mutexes
#   ./test.sh release     unit and integration tests
#   ./test.sh asan-ubsan  unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   ./test.sh tsan        batching, models and core under ThreadSanitizer
#   ./test.sh campaigns   longer ones, not part of the above: rolling restarts under load, connection floods, a memory
#                         limit, callers in Go and Ruby, the Python package beside tensorflow and tritonclient, scrapes,
#                         the speech demo watched by Prometheus, the gates' functions over more floats, .deb and wheel on
#                         bare machines and the demo on Debian 13 (with RNNSERVE_IMAGE_TOOLS), deploy/compose.yaml in
#                         containers (with docker, or the same tools), a corpus through Ray Data while replicas are
#                         killed; prints figures (about 20 minutes, and 10 of the demo)
# Ends with ctest's closing line of the last one; the status is non-zero if any test failed.
set -euo pipefail
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
refuse() {
  echo "${0##*/}: $1; see ${0##*/} --help" >&2
  exit 2
}
cd "$(dirname "$0")"
[ $# -le 1 ] || refuse "one argument, not $#"
case ${1:-} in
  '' | quick | lint | release | asan-ubsan | tsan | campaigns) ;;
  --help | -h) usage; exit ;;
  *) refuse "unknown argument $1" ;;
esac
if [ "${1:-}" = campaigns ]; then
  ./setup.sh --campaigns
  cmake --preset release >/dev/null
  cmake --build --preset release --target rnnserve rnnctl cpu_parts_test
  exec .venv/bin/python -B -m pytest -q -rs -p no:cacheprovider tests/campaigns
fi
./setup.sh --tests

run() { # PRESET, then arguments of ctest
  local preset=$1
  shift
  echo "== $preset"
  cmake --preset "$preset" >/dev/null
  case $preset in
    tsan) cmake --build --preset "$preset" --target tsan_tests ;;
    asan-ubsan) cmake --build --preset "$preset" --target unit_tests ;;
    *) cmake --build --preset "$preset" ;;
  esac
  ctest --preset "$preset" "$@"
}

lint() {
  echo "== lint"
  cmake --preset release >/dev/null
  cmake --build --preset release --target rnnserve rnnctl  # its generated headers
  ctest --preset release -L '^lint$' --output-on-failure
  if [ -d /usr/lib/llvm-14/lib/clang ]; then
    .venv/bin/python tests/lint/tidy.py build/release
  else
    echo "clang-tidy is left out: its headers are Debian 12's libclang-common-14-dev"
  fi
}

for preset in ${1:-lint tsan asan-ubsan release}; do
  case $preset in
    quick) run release -LE '^(slow|isa|integration|python)$' -j2 ;;
    lint) lint ;;
    release) run release -j2 ;;
    asan-ubsan) run asan-ubsan -L '^unit$' -j2 ;;
    tsan) run tsan -L '^tsan$' -j2 ;;
  esac
done
