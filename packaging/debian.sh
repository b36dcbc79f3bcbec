#!/usr/bin/env bash
# Makes target/heliostat_VERSION_amd64.deb from what was built: packaging/install.sh into a folder,
# a control file, dpkg-deb. Needs no root; dpkg-deb, binutils (strip,
# readelf), gzip and Python 3.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
root=$target/package/tree
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
package=$target/heliostat_${version}_amd64.deb

rm -rf "$root"
PREFIX=/usr SYSCONFDIR=/etc DESTDIR=$(realpath -m "$root") packaging/install.sh install
# Debian's place for completions of packages; site-functions is the administrator's.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
find "$root/usr/share/man" -type f -exec gzip -9n {} +
cat LICENSE-MIT LICENSE-APACHE >"$root/usr/share/doc/heliostat/copyright"
rm "$root/usr/share/doc/heliostat/"LICENSE-*

glibc=$(packaging/glibc.py "$root"/usr/bin/* "$root"/usr/lib/heliostat/*.so "$root"/usr/lib/*.so)
mkdir -p "$root/DEBIAN"
echo /etc/heliostat/heliostat.toml >"$root/DEBIAN/conffiles"
install -m 755 packaging/debian/* "$root/DEBIAN/"
cat >"$root/DEBIAN/control" <<END
Package: heliostat
Version: $version
Architecture: amd64
Maintainer: The Heliostat contributors <heliostat@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6 (>= $glibc), libgcc-s1
Section: net
Priority: optional
Homepage: https://github.com/heliostat/heliostat
Description: direct connections, mapped files and snapshots for unmodified programs
 A control plane names, grants and limits, and is asked once, when something is
 opened; from then on the data moves by itself, without the kernel where that is
 possible. Programs are neither changed nor recompiled.
 .
 This package has the control plane, the command line, the preloaded library,
 and the C interface with its headers.
END
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
