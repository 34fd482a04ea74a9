# Installs the Debian packages that a task needs, when they are missing.
#
# usage: sh cmake/packages.sh demo|test|ci
set -eu

demo="cmake ninja-build g++ pkg-config opencl-headers ocl-icd-opencl-dev pocl-opencl-icd
      libfmt-dev libcli11-dev nlohmann-json3-dev libexpected-dev"
test="$demo catch2 libbenchmark-dev oclgrind python3 python3-pip git valgrind"
ci="$test clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev"

case "${1:-}" in
  demo) wanted=$demo ;;
  test) wanted=$test ;;
  ci) wanted=$ci ;;
  *) echo "usage: sh cmake/packages.sh demo|test|ci" >&2; exit 2 ;;
esac

if ! command -v dpkg > /dev/null; then
  echo "This is not Debian; the build needs what these Debian packages hold:"
  echo $wanted
  exit 0
fi

missing=""
for package in $wanted; do
  case "$(dpkg -s "$package" 2> /dev/null)" in
    *"Status: install ok installed"*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif command -v sudo > /dev/null; then
  as_root=sudo
else
  echo "Neither root nor sudo: ask an administrator to run: apt-get install$missing" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs apt-get; what it says is shown only when it fails.
apt() {
  if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" > "$log" 2>&1; then
    cat "$log" >&2
    echo "apt-get $1 failed" >&2
    exit 1
  fi
}

echo "Installing packages:$missing"
apt update
apt install --yes --no-install-recommends $missing
