#!/bin/sh
# Installs what is missing, builds everything and runs the whole test suite.
set -eu
. "$(dirname "$0")/build.sh"

sh cmake/packages.sh test
echo "-- fetching Intel's OpenCL driver"
if ! sh cmake/intel-opencl.sh build/intel-opencl > build/step.log 2>&1; then
  cat build/step.log
  echo "-- none: its tests will be skipped"
fi
step "configuring build/dev" cmake --preset dev
step "building" cmake --build --preset dev
echo "-- testing"
ctest --preset dev -j 2
