#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs the server, rnnctl and the tests of the engine cuda with the libraries they need, for a GPU machine that has the
# CUDA runtime and cuDNN, and nothing else of ours (another distribution, no network).
#
#   tests/engine/cuda/device_bundle.sh OUT.tgz     here, after cmake --build --preset release
#   tar xzf OUT.tgz && ./run cuda_selftest cases   there; or ./run rnnserve --plugin=PLUGIN ..., ./run rnnctl bench ...
#
# The word PLUGIN stands for the plugin's path. CUDA's libraries are looked for in /usr/local/cuda and among python3's packages.
set -euo pipefail
cd "$(dirname "$0")/../../.."
out=${1:?name the archive}
built=build/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/lib"
programs=("$built/server/rnnserve" "$built/client/rnnctl/rnnctl" "$built/engine/cuda/cuda_selftest"
  "$built/tests/engine/cuda/cuda_device_test")
cp "${programs[@]}" "$built/engine/cuda/librnnserve_cuda.so" "$built/tests/engine/cuda/cases.bin" "$folder/bin/"
strip "$folder"/bin/{rnnserve,rnnctl,cuda_device_test}
# All but the C and C++ libraries, which newer distributions have newer ones of, and CUDA's.
ldd "${programs[@]}" | awk '/=> \// {print $3}' | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so|cuda' |
  while read -r file; do cp -L "$file" "$folder/lib/"; done
cat > "$folder/run" <<'RUN'
#!/usr/bin/env bash
here=$(cd "$(dirname "$0")" && pwd)
cuda=$(python3 - 2>/dev/null <<'PY'
import glob, site, sys
print(":".join(dict.fromkeys(place for base in site.getsitepackages() + sys.path for place in glob.glob(base + "/nvidia/*/lib"))))
PY
)
export LD_LIBRARY_PATH=$here/lib:$cuda:/usr/local/cuda/lib64:/usr/local/cuda/lib
export RNNSERVE_CUDA_PLUGIN=$here/bin/librnnserve_cuda.so
program=$1; shift
exec "$here/bin/$program" "${@//PLUGIN/$here/bin/librnnserve_cuda.so}"
RUN
chmod +x "$folder/run"
tar -C "$folder" -czf "$out" bin lib run
echo "packed $out, $(du -h "$out" | cut -f1)"
