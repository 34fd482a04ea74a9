#!/bin/sh
# Runs a program on the OpenCL drivers of one folder alone; exit status 77 when one of them is not there.
#
# usage: sh with_driver.sh <folder of .icd files> <program> [<argument>...]
set -eu

folder=$1
shift
for icd in "$folder"/*.icd; do
  library=$(cat "$icd" 2> /dev/null || echo "$icd")
  if [ ! -f "$library" ] && ! ldconfig -p 2> /dev/null | grep -q "[[:space:]]$library "; then
    echo "SKIPPED: no OpenCL driver $library"
    exit 77
  fi
done
export OCL_ICD_VENDORS="$folder"
exec "$@"
