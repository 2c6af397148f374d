#!/usr/bin/env bash
# Builds what gpu_check.sh needs and packs it into DIR/pack.tar.xz, for a machine with NVIDIA devices but without Rust or a network.
# Prepares a CUDA toolkit first if CUDA_HOME names none.
#
# Usage: scripts/gpu_pack.sh [DIR]      DIR defaults to .gpu, which git ignores.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=${1:-.gpu}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[[ -n ${CUDA_HOME:-} ]] || eval "$(scripts/cuda_toolkit.sh)"

LD_LIBRARY_PATH=$CUDA_HOME/lib64 scripts/check_kernels.py >&2

# The CUDA build goes first: it would also overwrite the worker for the processor, which must start without CUDA.
cargo build --locked --release -p foxlaunch-worker --features nccl --bin foxlaunch-worker-cuda
cargo build --locked --release -p foxlaunch-tests --features gpu --bin fox-test-gpu
cargo build --locked --release -p foxlaunch -p foxlaunch-worker --bin foxlaunch --bin foxlaunch-worker
target=$(cargo metadata --format-version 1 --locked --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
for program in foxlaunch foxlaunch-worker foxlaunch-worker-cuda fox-test-gpu; do
    strip -o "$stage/$program" "$target/release/$program"
done
cp scripts/gpu_check.sh scripts/gpu_faults.sh tests/fixtures/ddp.py "$stage/"
for peer in benches/peers ../shared/peers; do
    [[ -f $peer/torch_allreduce.py ]] && cp "$peer/torch_allreduce.py" "$peer/torch_mlp.py" "$peer/torch_rainbow.py" "$stage/" && break
done
# Two programs hold the same kernels as text: a dictionary longer than both lets the second cost nothing.
tar -C "$stage" -c . | xz -T1 -6 --lzma2=preset=6,dict=64MiB >"$dir/pack.tar.xz"
ls -l "$stage" "$dir/pack.tar.xz" >&2
