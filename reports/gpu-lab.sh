#!/usr/bin/env bash
# The lab on a machine with a GPU, everything kept as it came: reports/gpu-lab.sh FOLDER
# Needs nvcc and a GPU. Where cargo is missing, ./libcuda_hook.so and target/release/hook-analyze are used as they are.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out"
out=$(cd "$out" && pwd)
analyze=$PWD/target/release/hook-analyze
lab=(CUDA_MEM_QUOTA_MB=128 CUDA_CORE_RATE=5 CUDA_CORE_CAPACITY=3)
failed=0
check() { # what, exit code
  echo "$1: exit $2"
  [ "$2" = 0 ] || failed=1
}

{
  date -u +%FT%TZ
  uname -srm
  lscpu | grep -E '^(Model name|CPU\(s\)):' | tr -s ' '
  ldd --version | head -1
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  nvcc --version | tail -2
} > "$out/environment.txt"

# The lab itself, as its page says.
make test-gpu > "$out/test_hook.stdout" 2> "$out/hook.log"
check "make test-gpu" $?
mv hook.jsonl "$out/"
diff cuda/expected/test_hook.stdout "$out/test_hook.stdout"
check "stdout is the course's" $?
diff <(sed -E 's/0x[0-9a-f]+/0x…/' cuda/expected/hook.log) <(sed -E 's/0x[0-9a-f]+/0x…/' "$out/hook.log")
check "log is the course's, pointers apart" $?
cd "$out" || exit 1
"$analyze" hook.log --plot timeline.svg > summary.txt && "$analyze" --report report.md > /dev/null
check "hook-analyze" $?
"$analyze" --report report.en.md --lang en > /dev/null && "$analyze" --json > summary.json
check "hook-analyze, English and JSON" $?
# Every chart as text and as pixels, the page, the trace, the judgement of each experiment.
"$analyze" hook.log --plot hook.svg --chart all > /dev/null && "$analyze" hook.log --plot hook.png --chart all > /dev/null
check "hook-analyze, every chart" $?
"$analyze" hook.log --html page.html --trace trace.json > /dev/null
check "hook-analyze, page and trace" $?
"$analyze" hook.log --lab > lab.txt && "$analyze" hook.log --lab --lang en > lab.en.txt
check "hook-analyze, the lab's experiments" $?
cd - > /dev/null || exit 1

# A program that launches by <<<...>>>, which CUDA 13 compiles to __cudaLaunchKernel.
make -s build/gpu/triple && env "${lab[@]}" CUDA_HOOK_EVENTS="$out/triple.jsonl" LD_PRELOAD=./libcuda_hook.so \
  build/gpu/triple > "$out/triple.stdout" 2> "$out/triple.log"
check "<<<...>>> program" $?
grep -c '"sym":"__cudaLaunchKernel"' "$out/triple.jsonl"

# Every way of the runtime API to take memory and to launch.
make -s build/gpu/runtime_api && env CUDA_MEM_QUOTA_MB=128 CUDA_HOOK_EVENTS="$out/runtime_api.jsonl" \
  LD_PRELOAD=./libcuda_hook.so build/gpu/runtime_api > "$out/runtime_api.stdout" 2> "$out/runtime_api.log"
check "the rest of the runtime API" $?

# What the stand-in runtime claims of CUDA, asked of CUDA.
nvcc -x cu --cudart=shared cuda/sim/test_cudart.cpp -o build/gpu/test_cudart && build/gpu/test_cudart > "$out/test_cudart.stdout"
check "tests of the stand-in on the real runtime" $?
exit $failed
