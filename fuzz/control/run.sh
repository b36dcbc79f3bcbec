#!/usr/bin/env bash
# Builds the targets with coverage counters on the stable compiler and runs each for SECONDS
# (60). What they find new stays beside the build; a crash is printed with its file and seed.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
shift || true
targets=("${@:-}")
[ -n "${targets[0]}" ] || targets=(request config report)
build=${CARGO_TARGET_DIR:-$PWD/target}
triple=x86_64-unknown-linux-gnu
# The flags that cargo-fuzz sets, less the sanitizer: the code under test has no unsafe block.
counters="-Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions=on
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table"
RUSTFLAGS="$counters" CARGO_TARGET_DIR="$build" cargo build --release --target "$triple"
for target in "${targets[@]}"; do
  found="$build/found/$target"
  mkdir -p "$found"
  "$build/$triple/release/$target" -max_total_time="$seconds" -max_len=4096 \
    -artifact_prefix="$found/" "$found" "corpus/$target"
done
