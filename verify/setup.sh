#!/usr/bin/env bash
# Installs the Debian packages that the tests and benchmarks run, if any is missing; and those that
# are named: `verify/setup.sh debootstrap` for what only one target needs.
#
# Only what is missing is installed, and only when that is allowed (root, or sudo without a
# password). Packages may start services of their own; nothing in this project uses those.
set -euo pipefail

packages=(redis-server redis-tools memcached nginx-light wrk curl fio sqlite3 fuse3 valgrind gdb
          iproute2 util-linux procps gcc g++ libc6-dev python3-venv git make xz-utils bzip2 ed
          vim-tiny bc tree file nodejs xfsprogs pkg-config liburing-dev "$@")
# Any Go will do; Debian's, 80 MB to fetch, where there is none.
command -v go >/dev/null || packages+=(golang-go)
# Sandboxes that sealed programs are compared with, the tests of this system's Python, and UCX, which
# nodes can send messages by, and etcd; a release that lacks one leaves its column, or its tests, out.
python=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo 3)
optional=(runsc proot bubblewrap "libpython$python-testsuite" librocksdb7.8 libucx0 ucx-utils etcd-server etcd-client)

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
for package in "${optional[@]}"; do
    installed "$package" || ! apt-cache show "$package" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
    as_root=()
elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    echo "missing and not ours to install; please run: apt-get install ${missing[*]}" >&2
    exit 1
fi

echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; }
install </dev/null >/dev/null 2>&1 || {
    "${as_root[@]}" apt-get update -qq </dev/null
    install </dev/null
}
