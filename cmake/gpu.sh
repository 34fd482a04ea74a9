#!/bin/sh
# For a machine with an NVIDIA GPU: builds in build/gpu, and proves and measures CUDA on the real driver, and host_ptr
# and the OpenCL backend on NVIDIA's OpenCL.
# Goes through all steps and tells in the end which failed.
#
# usage: sh cmake/gpu.sh [STEP...] [-- CMAKE-ARGUMENT...]
#
# Steps, by default all in this order:
#   build      configures (C++20, warnings are no errors) and builds the tests and the program
#   test       ctest -L real-cuda: every suite on the real driver
#   opencl     ctest -L real-nvidia-cl: the OpenCL and host_ptr suites on NVIDIA's OpenCL
#   sanitize   compute-sanitizer memcheck, leaks included, on what holds no stream back. Errors that calls of the
#              driver return do not count: tests provoke them.
#   show       berth devices, check and tour, CUDA beside OpenCL on the same card
#   bench      the bench cases of CUDA and host_ptr, beside the driver's own calls; also in build/gpu/bench.jsonl
#
# -DBERTH_EXPECTED=std builds for C++23; the test that links CUDA's runtime library in is skipped
# then, which fails its step.
set -u
cd "$(dirname "$0")/.."

steps=""
while [ $# -gt 0 ]; do
  case "$1" in
    build | test | opencl | sanitize | show | bench) steps="$steps $1" ;;
    --) shift; break ;;
    *) sed -n '2,21s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ -n "$steps" ] || steps="build test opencl sanitize show bench"

folder=build/gpu
jobs=$(nproc)
mkdir -p "$folder"

build() {
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBERTH_STRICT=OFF -DBERTH_TEST_SCALE=1 \
    -DBERTH_EXPECTED=tl "$@" \
    > "$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; return 1; }
  grep 'berth:' "$folder/configure.log"
  cmake --build "$folder" --parallel "$jobs" --target tests_cuda tests_host_ptr tests_conformance \
    tests_unit berth_tool tool_faults > "$folder/build.log" 2>&1 ||
    { tail -n 60 "$folder/build.log"; return 1; }
  grep -c 'warning:' "$folder/build.log" | sed 's/$/ warnings/'
}

# run_tests <label> <jobs>: a skip is a failure here.
run_tests() {
  (cd "$folder" && ctest -L "$1" -j "$2" --output-on-failure --no-tests=error > "test-$1.log" 2>&1)
  status=$?
  cat "$folder/test-$1.log"
  if grep -q 'Skipped' "$folder/test-$1.log"; then
    echo "tests were skipped: is there a driver?"
    return 1
  fi
  return $status
}

sanitize() {
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null) ||
    { echo "compute-sanitizer is not there"; return 1; }
  status=0
  for name in conformance disk_copy memory ownership registration kernel host_ptr; do
    echo "-- memcheck: $name"
    # The laws once: the other forms of the allocator make the same calls. No kernel that is meant to fault.
    case $name in
      conformance) set -- "CUDA conforms on a device that berth opens" -c typed ;;
      kernel) set -- "a user's kernel works*" ;;
      host_ptr) set -- "[table],[alignment],[read_only],[sub_vectors],[range]" ;;
      *) set -- ;;
    esac
    BERTH_CUDA_DRIVER=real BERTH_TEST_SCALE=0.1 timeout 300 "$sanitizer" --tool memcheck --leak-check full \
      --report-api-errors no --target-processes application-only --error-exitcode 86 \
      "$folder/tests/cuda/test_cuda_$name" "$@" > "$folder/sanitize-$name.log" 2>&1 || status=$?
    tail -n 3 "$folder/sanitize-$name.log"
    [ $status -eq 0 ] || { echo "status $status"; grep -m 40 '=========' "$folder/sanitize-$name.log"; return 1; }
  done
}

# One card, twice: through CUDA and through OpenCL.
show() {
  "$folder/bin/berth" devices || return 1
  "$folder/bin/berth" check --device cuda > "$folder/check.log"
  status=$?
  cat "$folder/check.log"
  for framework in OpenCL CUDA; do
    grep -q "NVIDIA.*($framework, NVIDIA CUDA)" "$folder/check.log" || { echo "$framework lacks the card"; return 1; }
  done
  [ $status -eq 0 ] && "$folder/bin/berth" tour
}

bench() {
  : > "$folder/bench.jsonl"
  for name in cuda_call alloc_free copyin copyout transfer register host_ptr_sync; do
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
    test) run_tests real-cuda 1 ;; # they measure the device's free memory, and fill it
    opencl) run_tests real-nvidia-cl 4 ;;
    *) "$step" ;;
  esac || failed="$failed $step"
  echo "== $step: $(($(date +%s) - start)) s"
  case "$failed" in *build*) break ;; esac
done
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "all steps passed"
