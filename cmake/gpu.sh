#!/bin/sh
# For a machine with an NVIDIA GPU: builds the CUDA part in build/gpu, and proves and measures it on the real driver.
# Goes through all steps and tells in the end which failed.
#
# usage: sh cmake/gpu.sh [STEP...] [-- CMAKE-ARGUMENT...]
#
# Steps, by default all in this order:
#   build      configures (warnings are no errors) and builds the CUDA tests and the program
#   test       ctest -L real-cuda: every suite on the real driver
#   sanitize   compute-sanitizer memcheck, leaks included, on the suites that hold no stream back. Errors that calls
#              of the driver return do not count: tests provoke them.
#   show       berth devices, and berth tour on every CUDA device
#   bench      the bench cases of CUDA, beside the driver's own calls; also in build/gpu/bench.jsonl
#
# -DBERTH_EXPECTED=tl builds for C++20; the test that links CUDA's runtime library in needs that.
set -u
cd "$(dirname "$0")/.."

steps=""
while [ $# -gt 0 ]; do
  case "$1" in
    build | test | sanitize | show | bench) steps="$steps $1" ;;
    --) shift; break ;;
    *) sed -n '2,19s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ -n "$steps" ] || steps="build test sanitize show bench"

folder=build/gpu
jobs=$(nproc)
mkdir -p "$folder"

build() {
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBERTH_STRICT=OFF -DBERTH_TEST_SCALE=1 "$@" \
    > "$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; return 1; }
  grep 'berth:' "$folder/configure.log"
  cmake --build "$folder" --parallel "$jobs" --target tests_cuda berth_tool tool_faults > "$folder/build.log" 2>&1 ||
    { tail -n 60 "$folder/build.log"; return 1; }
  grep -c 'warning:' "$folder/build.log" | sed 's/$/ warnings/'
}

# One test at a time: they measure the device's free memory, and fill it. All of them skipped is a failure.
run_tests() {
  (cd "$folder" && ctest -L real-cuda --output-on-failure --no-tests=error > test.log 2>&1)
  status=$?
  cat "$folder/test.log"
  grep -q '   Passed ' "$folder/test.log" || { echo "no test ran: is there a driver?"; return 1; }
  return $status
}

sanitize() {
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null) ||
    { echo "compute-sanitizer is not there"; return 1; }
  status=0
  for name in conformance disk_copy memory ownership; do
    echo "-- memcheck: $name"
    # The laws once: the other forms of the allocator make the same calls.
    if [ $name = conformance ]; then
      set -- "CUDA conforms on a device that berth opens" -c typed
    else
      set --
    fi
    BERTH_CUDA_DRIVER=real BERTH_TEST_SCALE=0.1 timeout 300 "$sanitizer" --tool memcheck --leak-check full \
      --report-api-errors no --target-processes application-only --error-exitcode 86 \
      "$folder/tests/cuda/test_cuda_$name" "$@" > "$folder/sanitize-$name.log" 2>&1 || status=$?
    tail -n 3 "$folder/sanitize-$name.log"
    [ $status -eq 0 ] || { echo "status $status"; grep -m 40 '=========' "$folder/sanitize-$name.log"; return 1; }
  done
}

show() { "$folder/bin/berth" devices && "$folder/bin/berth" tour --device cuda; }

bench() {
  : > "$folder/bench.jsonl"
  for name in cuda_call alloc_free copyin copyout transfer register; do
    "$folder/bin/berth" bench --filter "$name" --json >> "$folder/bench.jsonl" || return 1
  done
  # The same as a table, a line a row.
  sed -E 's/[{}"]//g; s/,(case|value|unit|peer|version):/ | /g; s/^bench://' "$folder/bench.jsonl"
}

failed=""
for step in $steps; do
  echo "== $step"
  start=$(date +%s)
  case "$step" in
    build) build "$@" ;;
    test) run_tests ;;
    *) "$step" ;;
  esac || failed="$failed $step"
  echo "== $step: $(($(date +%s) - start)) s"
  case "$failed" in *build*) break ;; esac
done
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "all steps passed"
