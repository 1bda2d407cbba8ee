#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON TEST_FILE: one test file of this folder, with a clear word where the interpreter is missing.
python=$1
shift
if ! "$python" -c 'import pytest, onnxruntime, grpc_tools' 2>/dev/null; then
  echo "$python is missing or lacks the packages of tests/requirements.txt." >&2
  echo "Run ./setup.sh --tests, or: python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt" >&2
  exit 1
fi
cd "$(dirname "$0")" || exit 1
exec "$python" -B -m pytest -q -p no:cacheprovider "$@"
