#!/usr/bin/env bash
# Lints the code that only a CUDA build has, on a machine with neither CUDA nor a toolkit: `cargo clippy` links nothing, and
# fake_nvcc stands in for the compiler of candle's kernels. For each of the features `nccl` and `cuda`.
#
# Usage: scripts/check_cuda.sh [FEATURE...]      in a target folder of its own (CHECK_CUDA_TARGET_DIR, default target-cuda-check),
# because what fake_nvcc writes must never reach a build.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
features=("$@")
((${#features[@]})) || features=(nccl cuda)

unset CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR
export NVCC=$PWD/scripts/fake_nvcc CUDA_COMPUTE_CAP=90 CUDARC_CUDA_VERSION=13000
export CARGO_TARGET_DIR=${CHECK_CUDA_TARGET_DIR:-$PWD/target-cuda-check}

for feature in "${features[@]}"; do
    echo "check_cuda: --features $feature" >&2
    cargo clippy --locked -p foxlaunch-worker --features "$feature" --all-targets -- -D warnings
    if [[ $feature == nccl ]]; then
        cargo clippy --locked -p foxlaunch-tests --features gpu --bin fox-test-gpu -- -D warnings
    fi
done
