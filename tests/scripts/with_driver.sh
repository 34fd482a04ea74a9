#!/bin/sh
# Runs a program on the OpenCL drivers of one folder alone; exit status 77 when there is no such folder.
#
# usage: sh with_driver.sh <folder of .icd files> <program> [<argument>...]
set -eu

folder=$1
shift
if [ ! -d "$folder" ]; then
  echo "SKIPPED: no OpenCL driver at $folder"
  exit 77
fi
export OCL_ICD_VENDORS="$folder"
exec "$@"
