#!/usr/bin/env bash
# Installs what the suites of real programs run: Debian packages, Python modules, Node, Rust programs.
#
# Only what is missing is fetched. Everything that is no Debian package lies below target/suites.
# Packages are installed without starting their services; the suites start servers of their own.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
programs=$here/programs
place=$here/../../target/suites
packages=(postgresql ffmpeg mariadb-server sysbench haproxy nginx-light php-fpm squid lighttpd stunnel4
          openssl iperf3 rsync git dovecot-imapd erlang-base openjdk-17-jdk-headless
          libboost-dev redis-server redis-tools curl wrk g++ npm python3-venv)
command -v go >/dev/null || packages+=(golang-go)

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

install_packages() {
    local missing=() as_root=()
    for package in "${packages[@]}"; do
        installed "$package" || command_of "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || {
            echo "missing and not ours to install; please run: apt-get install ${missing[*]}" >&2
            exit 1
        }
        as_root=(sudo -n)
    fi
    echo "installing: ${missing[*]}"
    # With this run level, invoke-rc.d leaves the packages' services as they are.
    "${as_root[@]}" apt-get update -qq </dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

# npm and a JDK may have come from elsewhere than Debian.
command_of() {
    case $1 in
        npm) command -v npm ;;
        openjdk-17-jdk-headless) command -v javac ;;
        *) return 1 ;;
    esac >/dev/null
}

# Does a step anew when a file that it follows from is newer than its mark.
when_changed() {
    local mark=$place/.$1 source=$2
    shift 2
    [ -e "$mark" ] && [ -z "$(find "$source" -newer "$mark")" ] && return
    "$@"
    touch "$mark"
}

# Debian's Python, where there is one: servers' users reach it, and not what lies in a home.
install_python() {
    local python=/usr/bin/python3
    [ -x "$python" ] || python=python3
    "$python" -m venv "$place/venv"
    "$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
}

install_node() {
    cp "$here/package.json" "$place/package.json"
    npm install --prefix "$place" --no-audit --no-fund --loglevel=error
}

build_rust() {
    mkdir -p "$place/rust-source"
    cp -r "$programs/rust/." "$place/rust-source"
    cargo build --quiet --release --manifest-path "$place/rust-source/Cargo.toml" --target-dir "$place/rust"
}

build_asio() { g++ -std=c++17 -O2 -pthread "$programs/asio_echo.cpp" -o "$place/asio_echo"; }
build_java() { javac -d "$place" "$programs/Pages.java"; }
build_erlang() { erlc -o "$place" "$programs/echo.erl"; }

build_go() {
    local go
    go=$(command -v go || echo /usr/local/go/bin/go)
    (cd "$programs/go" && CGO_ENABLED=0 "$go" build -o "$place/go_static" .)
    (cd "$programs/go" && CGO_ENABLED=1 "$go" build -tags netcgo -o "$place/go_dynamic" .)
}

install_packages
mkdir -p "$place"
place=$(cd "$place" && pwd)
when_changed python "$here/requirements.txt" install_python
when_changed node "$here/package.json" install_node
when_changed rust "$programs/rust" build_rust
when_changed asio "$programs/asio_echo.cpp" build_asio
when_changed java "$programs/Pages.java" build_java
when_changed erlang "$programs/echo.erl" build_erlang
when_changed go "$programs/go" build_go
