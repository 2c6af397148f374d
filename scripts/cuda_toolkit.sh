#!/usr/bin/env bash
# Prepares a CUDA 13.0 toolkit from PyPI's wheels on a machine that has neither a driver nor a toolkit, enough to build and link the
# CUDA worker (not to run it). Prints the `export` lines that a build needs, so:
#
#     eval "$(scripts/cuda_toolkit.sh)"
#     cargo build --release -p foxlaunch-worker --features nccl
#
# Usage: scripts/cuda_toolkit.sh [DIR]      DIR defaults to ~/.cache/foxlaunch/cuda-13.0; about 3 GB. What is already there is kept.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/foxlaunch/cuda-13.0}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# nvcc stays at 13.0: the driver of 13.0 refuses PTX from a newer one. NCCL is the version whose header worker/src/collectives/nccl/communicator.rs follows.
wheels=(
    nvidia-cuda-nvcc==13.0.88       # nvcc, ptxas, fatbinary
    nvidia-nvvm==13.0.88            # cicc, libdevice
    nvidia-cuda-crt==13.0.88        # include/crt
    nvidia-cuda-cccl==13.0.85       # CUB and Thrust headers
    nvidia-cuda-runtime==13.0.96    # headers, libcudart
    nvidia-cublas==13.0.2.14
    nvidia-curand==10.4.0.35
    nvidia-cuda-nvrtc==13.0.88
    nvidia-nccl-cu13==2.28.9
)

say() { echo "cuda_toolkit: $*" >&2; }

site=$dir/site
digest=$(printf '%s\n' "${wheels[@]}" | sha256sum | cut -d' ' -f1)
if [[ $(cat "$dir/wheels.sha256" 2>/dev/null) != "$digest" ]]; then
    say "fetching ${#wheels[@]} wheels (about 870 MB) into $site"
    rm -rf "$site.new" && mkdir -p "$site.new"
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --no-compile --target "$site.new" "${wheels[@]}" >&2
    rm -rf "$site" && mv "$site.new" "$site"
    echo "$digest" >"$dir/wheels.sha256"
fi

cu=$site/nvidia/cu13
[[ -x $cu/bin/nvcc ]] || { say "$cu/bin/nvcc is missing: delete $dir and run this again"; exit 1; }
for part in bin nvvm include; do ln -sfn "$cu/$part" "$dir/$part"; done

# lib64: every library under its soname, and under the plain name that the linker asks for.
mkdir -p "$dir/lib64/stubs"
for library in "$cu"/lib/*.so.* "$site"/nvidia/nccl/lib/*.so.*; do
    name=$(basename "$library")
    ln -sfn "$library" "$dir/lib64/$name"
    ln -sfn "$library" "$dir/lib64/${name%%.so.*}.so"
done
ln -sfn "$site/nvidia/nccl/include/nccl.h" "$cu/include/nccl.h"

# The driver's library comes with the driver, never in a wheel. The linker only wants its names: a function for each one in cudarc's
# bindings, that answers CUDA_ERROR_STUB_LIBRARY (34). The program binds to the true library by its soname when it starts.
if [[ ! -e $dir/lib64/stubs/libcuda.so ]]; then
    metadata=$(cd "$here" && cargo metadata --format-version 1 --locked --all-features --filter-platform x86_64-unknown-linux-gnu)
    cudarc=$(python3 -c '
import json, os, sys
found = [p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "cudarc"]
print(os.path.dirname(found[0]) if found else "")' <<<"$metadata")
    [[ -d $cudarc/src/driver/sys ]] || { say "cudarc's source was not found through cargo metadata"; exit 1; }
    names=$(grep -rhoE '\bfn cu[A-Z][A-Za-z0-9_]*' "$cudarc/src/driver/sys" | sed 's/^fn //' | sort -u)
    say "compiling a driver stub with $(wc -l <<<"$names") names"
    sed 's/.*/int &(void) { return 34; }/' <<<"$names" >"$dir/lib64/stubs/cuda_stub.c"
    cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$dir/lib64/stubs/libcuda.so" "$dir/lib64/stubs/cuda_stub.c"
fi
ln -sfn stubs/libcuda.so "$dir/lib64/libcuda.so"

"$dir/bin/nvcc" --version | grep -q 'release 13.0' || { say "nvcc of $dir does not answer as 13.0"; exit 1; }
say "ready in $dir"
cat <<LINES
export CUDA_HOME='$dir'
export CUDA_PATH='$dir'
export PATH='$dir/bin':"\$PATH"
export CUDA_COMPUTE_CAP=\${CUDA_COMPUTE_CAP:-90}
export CUDARC_CUDA_VERSION=13000
LINES
