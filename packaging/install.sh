#!/bin/sh
# Install a Skep server into a new virtual environment, with the versions of requirements.lock.
#
#   sh packaging/install.sh /opt/skep [SOURCE]
#
# The Dockerfile calls this script. `docker build` is not part of the test suite, so its steps are
# here, where `make check-install` runs them in a clean environment without Docker.
set -eu

target=$1
source=${2:-$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)}
python=${PYTHON:-python3}

constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
# Hashes are not allowed in a constraints file together with a directory to install.
sed -n 's/^\([A-Za-z0-9][^ ]*==[^\\]*[^\\ ]\) *\\\{0,1\}$/\1/p' "$source/requirements.lock" > "$constraints"

"$python" -m venv "$target"
"$target/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check \
    --constraint "$constraints" "$source[encryption,postgres,rocksdb,server]"
"$target/bin/skep" --help > /dev/null
echo "installed $("$target/bin/pip" list --format=freeze 2> /dev/null | grep '^skep==') in $target"
