#!/usr/bin/env bash
# Makes a Python environment with PyTorch for the scripts in benches/peers, outside the repository.
#
#   scripts/peers.sh [FOLDER]        (default: foxlaunch-peers in the user's cache)
#
# It takes about 5 GB. PYTHON chooses the interpreter (3.10 to 3.13). The last line printed is the folder.
set -euo pipefail

folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/foxlaunch-peers}
repository=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
case $(realpath -m "$folder")/ in
"$repository"/*)
    echo "$folder lies inside the repository: choose a folder elsewhere" >&2
    exit 2
    ;;
esac
python=${PYTHON:-}
for candidate in python3.11 python3.12 python3.10 python3.13 python3; do
    [ -n "$python" ] || ! command -v "$candidate" > /dev/null || python=$candidate
done
[ -n "$python" ] || { echo "no python3 found; set PYTHON" >&2; exit 69; }

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder" >&2
"$folder/bin/python" -m pip install --disable-pip-version-check torch numpy setuptools >&2
"$folder/bin/python" -c 'import torch; print("torch", torch.__version__, "cuda" if torch.cuda.is_available() else "cpu only")' >&2
echo "$folder"
