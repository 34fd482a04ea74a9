# Sourced by demo.sh and test.sh: where to build, and quiet steps.
cd "$(dirname "$0")/.."

if command -v ccache > /dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
fi
export POCL_CACHE_DIR="$PWD/build/pocl-cache"
mkdir -p "$POCL_CACHE_DIR"

# step <title> <command>...: shows the title, and what the command says only when it fails.
step() {
  echo "-- $1"
  shift
  if ! "$@" > build/step.log 2>&1; then
    cat build/step.log >&2
    exit 1
  fi
}
