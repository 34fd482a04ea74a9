#!/bin/sh
# Installs what is missing, builds everything and runs the whole test suite.
set -eu
. "$(dirname "$0")/build.sh"

sh cmake/packages.sh test
step "configuring build/dev" cmake --preset dev
step "building" cmake --build --preset dev
echo "-- testing"
ctest --preset dev -j 2
