#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds librnnserve_cuda.so and cuda_selftest with the CUDA toolkit alone (nvcc, cuBLAS, cuDNN 9; no CMake, no gRPC).
#
#   tests/engine/cuda/selftest/build.sh OUT_DIR          build; OUT_DIR/cuda_selftest [facts] [cases] [bench] runs it
#
# cuDNN and cuBLAS are looked for beside nvcc, in the system's folders and among python3's packages; CUDNN_HOME and
# CUDA_HOME name them otherwise. ARCH=sm_90 (the default) or any list that nvcc's -arch takes.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../../.." && pwd)
out=${1:?name a folder for what is built}
mkdir -p "$out/selftest"
out=$(cd "$out" && pwd)

nvcc=${NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
[ -x "$nvcc" ] || { echo "CUDA toolkit not found: no nvcc (set CUDA_HOME)"; exit 77; }
cuda=${CUDA_HOME:-$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)}

places=("${CUDNN_HOME:-}" "$cuda" "$cuda/targets/x86_64-linux" /usr /usr/local)
if command -v python3 >/dev/null; then
  while read -r place; do places+=("$place"); done < <(python3 - <<'PY'
import glob, site, sys
for base in dict.fromkeys(site.getsitepackages() + sys.path):
    for place in sorted(glob.glob(base + "/nvidia/*/include")):
        print(place[:-len("/include")])
PY
  )
fi
# find_file RELATIVE...: the first of them that some place holds.
find_file() {
  local place name
  for name in "$@"; do
    for place in "${places[@]}"; do
      if [ -n "$place" ] && [ -e "$place/$name" ]; then echo "$place/$name"; return; fi
    done
  done
}
need() { [ -n "$2" ] || { echo "CUDA toolkit not found: no $1"; exit 77; }; }
cudnn_header=$(find_file include/cudnn.h include/x86_64-linux-gnu/cudnn.h); need cudnn.h "$cudnn_header"
cublas_header=$(find_file include/cublas_v2.h); need cublas_v2.h "$cublas_header"
runtime_header=$(find_file include/cuda_runtime_api.h); need cuda_runtime_api.h "$runtime_header"
library() {  # NAME VERSION
  find_file "lib64/lib$1.so.$2" "lib/lib$1.so.$2" "lib/x86_64-linux-gnu/lib$1.so.$2" "lib64/lib$1.so" "lib/lib$1.so"
}
cudnn=$(library cudnn 9); need libcudnn "$cudnn"
cublas=$(library cublas 13); need libcublas "$cublas"
cublaslt=$(library cublasLt 13); need libcublasLt "$cublaslt"
runtime=$(library cudart 13); need libcudart "$runtime"
for file in "$cudnn_header" "$cublas_header" "$cudnn" "$cublas" "$cublaslt" "$runtime"; do echo "using $file"; done

includes=()
for header in "$cudnn_header" "$cublas_header" "$runtime_header"; do includes+=(-isystem "$(dirname "$header")"); done
flags=(-std=c++20 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow -Wconversion -Werror -I"$root" "${includes[@]}")
cxx=${CXX:-g++}
# An RPATH, not a RUNPATH: it also serves what cuDNN loads by itself.
libraries=(-Wl,--disable-new-dtags)
for file in "$cudnn" "$cublas" "$cublaslt" "$runtime"; do libraries+=("$file" "-Wl,-rpath,$(dirname "$file")"); done

jobs=()
plugin=(error device execution_context predicate products general_path cudnn_path program slot_pool copy_pool group
  group_stage_in group_launch group_queue advance api)
kernels=(kernels resident)
selftest=(cuda_selftest reference bare_rnn fact_checks facts facts_algorithms facts_calls facts_numbers batch_check cases replay bench)
for name in "${plugin[@]}"; do
  "$cxx" "${flags[@]}" -c "$root/engine/cuda/$name.cc" -o "$out/$name.o" & jobs+=($!)
done
for name in "${selftest[@]}"; do
  "$cxx" "${flags[@]}" -c "$root/tests/engine/cuda/selftest/$name.cc" -o "$out/selftest/$name.o" & jobs+=($!)
done
for name in "${kernels[@]}"; do
  "$nvcc" -std=c++20 -O3 -arch="${ARCH:-sm_90}" -I"$root" "${includes[@]}" --Werror all-warnings \
    -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -c "$root/engine/cuda/$name.cu" -o "$out/$name.o" & jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done

objects() { local name; for name in "$@"; do echo "$out/$name.o"; done; }
mapfile -t plugin_objects < <(objects "${plugin[@]}" "${kernels[@]}")
mapfile -t selftest_objects < <(objects "${selftest[@]/#/selftest/}")
"$cxx" -shared -Wl,--no-undefined -o "$out/librnnserve_cuda.so" "${plugin_objects[@]}" "${libraries[@]}"
"$cxx" -o "$out/cuda_selftest" "${selftest_objects[@]}" "${libraries[@]}" -ldl -lpthread
echo "built $out/librnnserve_cuda.so and $out/cuda_selftest"
