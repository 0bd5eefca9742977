#!/usr/bin/env bash
# Real programs without the hook, recorded, and limited in three ways, on a machine with a GPU; all judged:
#   reports/gpu-programs.sh FOLDER          8 minutes at most
#   reports/gpu-programs.sh --from FOLDER   judges what lies there anew, without a GPU
# Needs nvcc, gcc and Python; PyTorch, Triton, CuPy and JAX for the programs that use them. ./libcuda_hook.so (or $HOOK) and
# ./hook-analyze or target/release/hook-analyze (or $ANALYZE) are used as they are; without the latter its checks are left out.
# Leaves in FOLDER: run.md, summary.json, environment.txt, build.txt, symbols.txt, runs.json, runs/.
# Exit: 0 every run is as expected, 1 one is not, 2 nothing could be run.
set -euo pipefail
begun=$(date +%s)
cd "$(dirname "$0")/.."
programs=reports/programs
build=build/gpu
python=$(command -v "${PYTHON:-python3}") || { echo "python3 is missing" >&2; exit 2; }

[ $# -ge 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
if [ "$1" = --from ]; then
  exec "$python" "$programs/report.py" "${2:?--from needs a folder}"
fi
out=$1
[ ! -e "$out/runs" ] || { echo "$out holds runs already: name another folder" >&2; exit 2; }
HOOK=$(readlink -f "${HOOK:-libcuda_hook.so}")
[ -f "$HOOK" ] || { echo "there is no $HOOK: make hook" >&2; exit 2; }
if [ -z "${ANALYZE:-}" ]; then
  for ANALYZE in ./hook-analyze target/release/hook-analyze ""; do [ ! -x "$ANALYZE" ] || break; done
fi
if [ -n "$ANALYZE" ]; then ANALYZE=$(readlink -f "$ANALYZE"); else echo "hook-analyze is not here: its checks are left out" >&2; fi
export HOOK ANALYZE
mkdir -p "$out" "$build"
out=$(cd "$out" && pwd)

# Machine and versions. Each library is loaded once, so that no run's time limit pays for a cold disk.
version() { # module, expression
  XLA_PYTHON_CLIENT_PREALLOCATE=false timeout 60 "$python" -c "import $1; print('$1', $2)" 2>> "$out/build.txt" || echo "$1: cannot be used"
}
: > "$out/build.txt"
{
  date -u +%FT%TZ
  uname -srm
  lscpu | grep -E '^(Model name|CPU\(s\)):' | tr -s ' ' || true
  ldd --version 2>&1 | sed -n 1p || true
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 || echo "nvidia-smi: failed"
  "${NVCC:-nvcc}" --version | tail -2 || echo "nvcc: missing"
  "$python" --version
  version torch 'torch.__version__, "CUDA", torch.version.cuda, "usable", torch.cuda.is_available()'
  version triton 'triton.__version__'
  version cupy 'cupy.__version__, "devices", cupy.cuda.runtime.getDeviceCount()'
  version jax 'jax.__version__, jax.devices()'
  echo "commit ${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}"
  echo "hook $(sha256sum "$HOOK" | cut -c1-16)"
} > "$out/environment.txt" 2>> "$out/build.txt"
cat "$out/environment.txt"

# What can't be built is listed as such; the rest goes on.
nvcc=$(command -v "${NVCC:-nvcc}" || true)
root=$(dirname "$(dirname "$(readlink -f "${nvcc:-/nowhere/bin/nvcc}")")")
lib=$root/lib64
[ -d "$lib" ] || lib=$root/lib
# -lcuda: the toolkit's stub, else the driver itself, wherever the loader finds it.
mkdir -p "$build/lib"
driver=$lib/stubs/libcuda.so
[ -e "$driver" ] || driver=$("$python" -c '
import ctypes
ctypes.CDLL("libcuda.so.1")
print(next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line))' 2>> "$out/build.txt" || true)
[ -z "$driver" ] || ln -sf "$driver" "$build/lib/libcuda.so"

compile() { # output, nvcc's arguments
  local target=$build/$1
  shift
  rm -f "$target"
  echo "nvcc $* -o $target" >> "$out/build.txt"
  if [ -z "$nvcc" ] || ! "$nvcc" "$@" -L"$lib" -o "$target" >> "$out/build.txt" 2>&1; then
    echo "$target: not built" | tee -a "$out/build.txt"
  fi
}
shared=(--cudart=shared -Xlinker "-rpath,$lib")
compile launches cuda/launches.cu "${shared[@]}" &
compile launches_static cuda/launches.cu --cudart=static &
compile launches_per_thread cuda/launches.cu --default-stream per-thread "${shared[@]}" &
compile graph_launches cuda/graph_launches.cu "${shared[@]}" &
compile graph_launches_static cuda/graph_launches.cu --cudart=static &
compile add.ptx cuda/add.cu -ptx &
compile driver_linked cuda/driver_api.cpp --cudart=none -L"$build/lib" -lcuda &
compile driver_dlsym cuda/driver_api.cpp --cudart=none -DBY_DLSYM -ldl &
wait

# The driver's own table, without the hook: what it exports, and what cuGetProcAddress answers.
wanted='^(cuGetProcAddress|cuMemAlloc|cuMemCreate$|cuLaunch|cuGraphLaunch|cuMemFree|cuMemRelease|cuArray.*Create|cuMipmapped|cuMemHost|cuMemAllocHost|cuDevicePrimaryCtxRe|cuCtxDestroy|cuModuleUnload|cuLibraryUnload|cuMemGetInfo|cu.*GetName$)'
if gcc -std=c11 -O2 -Wall -Wextra "$programs/symbols.c" -o "$build/symbols" -ldl >> "$out/build.txt" 2>&1; then
  "$python" "$programs/exports.py" libcuda.so.1 2>> "$out/build.txt" | grep -E "$wanted" | sort |
    xargs "$build/symbols" > "$out/symbols.txt" 2>&1 || echo "symbols.txt: incomplete" | tee -a "$out/build.txt"
fi

DEADLINE=$((begun + 405)) "$python" "$programs/run.py" "$out"
"$python" "$programs/report.py" "$out"
