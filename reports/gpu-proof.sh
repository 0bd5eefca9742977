#!/usr/bin/env bash
# All that only a GPU shows, in one folder and at most 8 minutes: reports/gpu-proof.sh FOLDER (`make gpu-proof`)
#   lab        the lab as its page says, and the rest of the runtime API            (gpu-lab.sh)
#   programs   PyTorch, Triton, CuPy, JAX, static runtime, driver programs          (gpu-programs.sh)
#   cost       launch, allocation, training step beside no hook and other hooks     (gpu-cost.py)
#   hami       HAMi-core's own test programs under the hook                         (programs/hami_tests.py)
# Needs nvcc, gcc, Python. HAMI_CORE=PATH, HAMi-core's source (a copy without .git: its commit in a file COMMIT), adds the last part,
# and the comparison with its build/libvgpu.so, made by its own build.sh where it isn't there. Exit: 0 all as expected, 1 something is not, 2 nothing could be run.
set -uo pipefail
begun=$(date +%s)
cd "$(dirname "$0")/.."
[ $# = 1 ] || { sed -n '2,8p' "$0" >&2; exit 2; }
out=$1
[ ! -e "$out/README.md" ] || { echo "$out holds results already: name another folder" >&2; exit 2; }
mkdir -p "$out" build/gpu/lib
out=$(cd "$out" && pwd)
HOOK=$(readlink -f "${HOOK:-libcuda_hook.so}")
[ -f "$HOOK" ] || { echo "there is no $HOOK: make hook" >&2; exit 2; }
nvcc=$(command -v "${NVCC:-nvcc}") || { echo "nvcc is missing" >&2; exit 2; }
export HOOK NVCC=$nvcc PLAIN="" HAMI=""
failed=0
part() { # title, folder, command...
  local title=$1 folder=$2 from=$(date +%s) verdict
  shift 2
  if "$@" > "$out/$folder.txt" 2>&1; then verdict=pass; else verdict="FAIL ($?)"; failed=1; fi
  echo "| $title | [$folder]($folder/) | $verdict | $(($(date +%s) - from)) |" | tee -a "$out/parts"
}

part "the lab and the runtime API" lab reports/gpu-lab.sh "$out/lab"
part "real programs" programs reports/gpu-programs.sh "$out/programs"

root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
lib=$root/lib64
[ -d "$lib" ] || lib=$root/lib
"$nvcc" --cudart=shared -O2 cuda/cost.cu -L"$lib" -Xlinker "-rpath,$lib" -o build/gpu/cost || failed=1
if gcc -O2 -fPIC -shared -I"$root/include" hook/benches/programs/plain_hook.c -o build/gpu/plain_hook.so -ldl; then
  PLAIN=$PWD/build/gpu/plain_hook.so
fi
if [ -n "${HAMI_CORE:-}" ]; then
  if [ ! -f "$HAMI_CORE/build/libvgpu.so" ] && command -v cmake > /dev/null; then
    CUDA_HOME=$root bash "$HAMI_CORE/build.sh" > "$out/hami-build.txt" 2>&1
  fi
  [ ! -f "$HAMI_CORE/build/libvgpu.so" ] || HAMI=$(readlink -f "$HAMI_CORE/build/libvgpu.so")
  for name in cuda nvidia-ml; do
    found=$(ldconfig -p | sed -n "s/.*lib$name\.so\.1 .*=> //p" | head -1)
    [ -z "$found" ] || ln -sf "$found" "build/gpu/lib/lib$name.so"
  done
  part "HAMi-core's test programs" hami "${PYTHON:-python3}" reports/programs/hami_tests.py "$HAMI_CORE" "$out/hami"
else
  echo "HAMI_CORE is not set: HAMi-core's test programs, and the comparison with it, are left out" >&2
fi
DEADLINE=$((begun + 420)) part "what it costs" cost "${PYTHON:-python3}" reports/gpu-cost.py "$out/cost"

{
  echo "# On a GPU"
  echo
  echo "Made by \`reports/gpu-proof.sh FOLDER\` in $(($(date +%s) - begun)) s. Nothing is edited."
  echo
  echo '```'
  cat "$out/programs/environment.txt"
  [ -z "$HAMI" ] || echo "HAMi-core $(cat "$HAMI_CORE/COMMIT" 2> /dev/null || git -C "$HAMI_CORE" rev-parse --short HEAD)"
  echo '```'
  echo
  echo "| part | folder | verdict | s |"
  echo "|---|---|---|---|"
  cat "$out/parts"
  echo
  echo "## What it costs"
  echo
  cat "$out/cost/cost.md"
  if [ -f "$out/hami/hami_tests.md" ]; then
    echo "## HAMi-core's test programs under the hook"
    echo
    echo "The exit status with the hook must be that without it. \`limited\`: a quota of 6144 MB and a rate that is not reached."
    echo
    cat "$out/hami/hami_tests.md"
  fi
} > "$out/README.md"
rm -f "$out/parts"
cat "$out/README.md"
exit $failed
