#!/bin/sh
# Runs base, its backends and ring under the checkers: loom, AddressSanitizer, Valgrind and the fuzzer.
#
# A tool that is not installed is named and skipped; a tool that finds something fails the script.
# Usage: ring/verify.sh [loom] [asan] [valgrind] [fuzz]      (no argument: all of them)
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}/verify
host=x86_64-unknown-linux-gnu
backends="-p heliostat-backend-pages -p heliostat-backend-seal -p heliostat-backend-lease"
wanted=${*:-loom asan valgrind fuzz}

skip() { echo "SKIPPED $1: $2"; }

loom() {
    make test-loom
}

asan() {
    cargo +nightly --version >/dev/null 2>&1 || { skip asan "no nightly toolchain"; return 0; }
    RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="$target/asan" \
        cargo +nightly test -p heliostat-base -p heliostat-ring $backends --lib --tests --target "$host"
}

valgrind() {
    [ -x "$(which valgrind 2>/dev/null)" ] || { skip valgrind "not installed"; return 0; }
    # Valgrind's kernel has no pidfd_open, so the test that needs one is left out. The tests with
    # many threads or processes take minutes here and are covered by loom and AddressSanitizer.
    CARGO_TARGET_DIR="$target/valgrind" \
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind -q --error-exitcode=9 --fair-sched=yes" \
        cargo test -p heliostat-base -p heliostat-ring $backends --lib --test foreign_corpus -- \
        --test-threads=1 --skip a_killed_child_is_not_alive
}

fuzz() {
    cargo +nightly fuzz --version >/dev/null 2>&1 || { skip fuzz "no cargo-fuzz"; return 0; }
    for name in ring_foreign lane_foreign; do
        (cd fuzz/ring && cargo +nightly fuzz run --fuzz-dir . "$name" -- \
            -max_total_time="${FUZZ_SECONDS:-60}")
    done
}

for tool in $wanted; do
    echo "== $tool"
    "$tool"
done
