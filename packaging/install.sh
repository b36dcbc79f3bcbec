#!/usr/bin/env bash
# Installs what `make build` and `make documents` made, or removes it again.
#
#   packaging/install.sh install|uninstall     with PREFIX (/usr/local), DESTDIR, SYSCONFDIR
#
# One table says what goes where; both directions read it. The programs find the stub in
# ../lib/heliostat beside their own folder, so any PREFIX works, and so does a tree that is moved.
set -euo pipefail
cd "$(dirname "$0")/.."

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
case $PREFIX in
    /usr | /usr/local) SYSCONFDIR=${SYSCONFDIR:-/etc} ;;
    *) SYSCONFDIR=${SYSCONFDIR:-$PREFIX/etc} ;;
esac
built=${CARGO_TARGET_DIR:-target}/release
documents=${CARGO_TARGET_DIR:-target}/documents
config=$SYSCONFDIR/heliostat/heliostat.toml

# What each line holds: mode, file (or a folder's files), folder it goes into.
table() {
    local share=$PREFIX/share
    cat <<END
program $built/heliostat $PREFIX/bin
program $built/heliostatd $PREFIX/bin
library $built/libheliostat_posix.so $PREFIX/lib/heliostat
library $built/libheliostat_c.so $PREFIX/lib
archive $built/libheliostat_c.a $PREFIX/lib
filled packaging/heliostat.pc $PREFIX/lib/pkgconfig
plain bind/c/include/heliostat.h $PREFIX/include
filled packaging/systemd/heliostatd.service $PREFIX/lib/systemd/system
filled packaging/systemd/heliostatd.socket $PREFIX/lib/systemd/system
plain packaging/systemd/ucx.conf $share/heliostat
config packaging/heliostat.toml $SYSCONFDIR/heliostat
plain packaging/man/heliostatd.8 $share/man/man8
plain $documents/completions/heliostat.bash $share/bash-completion/completions
plain $documents/completions/_heliostat $share/zsh/site-functions
plain $documents/completions/heliostat.fish $share/fish/vendor_completions.d
plain LICENSE-MIT $share/doc/heliostat
plain LICENSE-APACHE $share/doc/heliostat
END
    for header in bind/c/include/heliostat/*.h; do echo "plain $header $PREFIX/include/heliostat"; done
    for header in bind/lean/include/*.h; do echo "plain $header $PREFIX/include"; done
    # One for each command; what is removed is what is there.
    local pages=$documents/man
    [ "$action" = install ] || pages=$DESTDIR$share/man/man1
    for page in "$pages"/heliostat.1 "$pages"/heliostat-*.1; do echo "plain $page $share/man/man1"; done
}

# The name under which a file is installed: bash looks for completions by the program's own.
installed_name() {
    case $1 in
        */heliostat.bash) echo heliostat ;;
        *) basename "$1" ;;
    esac
}

# Puts in the folders that a template leaves open.
fill() {
    sed -e "s|/usr/bin/|$PREFIX/bin/|g" -e "s|/etc/heliostat/|$SYSCONFDIR/heliostat/|g" \
        -e "s|@PREFIX@|$PREFIX|g" -e "s|@VERSION@|$version|g" "$1"
}

install_one() {
    local mode=$1 file=$2 folder=$DESTDIR$3 target
    target=$folder/$(installed_name "$file")
    [ -f "$file" ] || { echo "$file is not there; run \`make build documents\`" >&2; exit 1; }
    install -d -m 755 "$folder"
    # A new file each time, under a name of its own first: an old one may be running.
    case $mode in
        program | library) install -m "$([ "$mode" = program ] && echo 755 || echo 644)" "$file" "$target.new"
            strip --strip-debug "$target.new" ;;
        archive) install -m 644 "$file" "$target.new" && strip --strip-debug "$target.new" ;;
        filled) fill "$file" >"$target.new" && chmod 644 "$target.new" ;;
        config) install -m 644 "$file" "$target.new"
            if [ -e "$target" ] && ! cmp -s "$file" "$target"; then
                echo "kept: $target; the default is $target.new"
                return
            fi ;;
        plain) install -m 644 "$file" "$target.new" ;;
    esac
    mv -f "$target.new" "$target"
}

remove_one() {
    local mode=$1 file=$2 folder=$DESTDIR$3 target
    target=$folder/$(installed_name "$file")
    if [ "$mode" = config ] && [ -e "$target" ] && ! cmp -s "$file" "$target"; then
        echo "kept, since it was changed: $target"
        return
    fi
    rm -f "$target"
    [ "$mode" = config ] && rm -f "$target.new"
    # Folders that are nobody's but ours.
    case $folder in */heliostat) rmdir "$folder" 2>/dev/null || true ;; esac
}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
action=${1:-}
case $action in
    install) each=install_one ;;
    uninstall) each=remove_one ;;
    *) echo "usage: $0 install|uninstall" >&2; exit 2 ;;
esac
if [ "$action" = install ]; then
    # All or nothing: what is missing is said before the first file is put.
    while read -r mode file folder; do
        [ -f "$file" ] || { echo "$file is not there: run \`make build documents\` first" >&2; exit 1; }
    done < <(table)
fi
while read -r mode file folder; do
    "$each" "$mode" "$file" "$folder"
done < <(table)
