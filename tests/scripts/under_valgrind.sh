#!/bin/sh
# Runs programs under valgrind, one after the other; exit status 77 when there is no valgrind.
#
# usage: sh under_valgrind.sh <program>...
set -eu

if ! command -v valgrind > /dev/null; then
  echo "SKIPPED: valgrind is not installed"
  exit 77
fi
for program; do
  valgrind -q --error-exitcode=1 "$program"
done
