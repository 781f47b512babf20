#!/bin/sh
# Installs what heed is built and tested with, from Debian's packages: only what is missing.
#   tools/install_packages.sh          everything, tests included
#   tools/install_packages.sh build    what the library and the program need
#   tools/install_packages.sh tidy     these and what `make tidy` needs
#   tools/install_packages.sh fuzz     these and what `make fuzz` needs
set -eu

build="g++ cmake ninja-build make pkg-config libhwy-dev libsentencepiece-dev libutf8proc-dev libpcre2-dev
       nlohmann-json3-dev libtomlplusplus-dev libfmt-dev libpng-dev zlib1g-dev libcpp-httplib-dev"
tests="libgtest-dev python3 python3-dev python3-numpy pybind11-dev mypy chromium fonts-noto-cjk
       openmpi-bin libopenmpi-dev"
# (what all files of src/ include)
tidy="clang-tidy python3-dev python3-numpy pybind11-dev openmpi-bin libopenmpi-dev"
fuzz="clang libclang-rt-dev libgtest-dev"

case ${1:-all} in
  build) wanted=$build ;;
  tidy) wanted="$build $tidy" ;;
  fuzz) wanted="$build $fuzz" ;;
  *) wanted="$build $tests" ;;
esac

missing=""
for package in $wanted; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  case $status in *"install ok installed"*) ;; *) missing="$missing $package" ;; esac  # (of any architecture)
done
[ -n "$missing" ] || exit 0

command="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root="sudo"
elif command -v sudo >/dev/null 2>&1 && [ -t 0 ]; then
  as_root="sudo"
else
  echo "heed needs packages that are not installed. As root, run:" >&2
  echo "  apt-get update && $command" >&2
  exit 1
fi
echo "Installing:$missing" >&2
# shellcheck disable=SC2086
{ DEBIAN_FRONTEND=noninteractive $as_root apt-get update -q && DEBIAN_FRONTEND=noninteractive $as_root $command; } >&2 || {
  echo "Installing failed. As root, run:" >&2
  echo "  apt-get update && $command" >&2
  exit 1
}
