#!/bin/sh
# Install a server as the Dockerfile does, start it from an empty directory, push and pop a message.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
scratch=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    [ -z "$server" ] || wait "$server" 2> /dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT

sh "$root/packaging/install.sh" "$scratch/skep" "$root"
cd "$scratch"
export SKEP_STORE="$scratch/store" SKEP_PORT=0
"$scratch/skep/bin/skep" serve > "$scratch/output" &
server=$!
for _ in $(seq 100); do
    url=$(sed -n 's/.*listens on \(http[^ ]*\).*/\1/p' "$scratch/output")
    [ -z "$url" ] || break
    sleep 0.2
done
[ -n "$url" ] || { echo "the server did not start" >&2; exit 1; }

"$scratch/skep/bin/skep" push --url "$url" orders '{"total": 7}'
"$scratch/skep/bin/skep" pop --url "$url" orders | grep '"total": 7'
echo "the installed server works"
