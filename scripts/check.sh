#!/usr/bin/env bash
# Everything that must hold before a change is merged; CI runs the same. Needs the Rust toolchain, a C compiler and the
# package registries, no GPU. The first failure ends it.
#
#   scripts/check.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s\n' "$*" >&2; }

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --locked --workspace --all-targets -- -D warnings

step "tests"
cargo test --locked --workspace

if [ -x scripts/check_cuda.sh ]; then
    step "lints of what only a CUDA build has"
    scripts/check_cuda.sh
fi

step "licences and origins of dependencies"
if command -v cargo-deny > /dev/null; then
    cargo deny --config .deny.toml check bans licenses sources
else
    echo "SKIPPED: cargo-deny is not installed (cargo install cargo-deny --locked)" >&2
fi

step "all checks passed"
