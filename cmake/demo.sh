#!/bin/sh
# Installs what is missing, builds the berth program and shows what it finds and does on this machine.
set -eu
. "$(dirname "$0")/build.sh"

sh cmake/packages.sh demo
step "configuring build/release" cmake --preset release
step "building the berth program" cmake --build --preset release --target berth_tool

echo "-- berth devices"
build/release/bin/berth devices
echo "-- berth tour"
build/release/bin/berth tour
