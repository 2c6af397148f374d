#!/usr/bin/env bash
# What a launcher costs: starts two processes that do nothing, with foxlaunch and with torchrun, in turns so that
# both meet the same machine, and prints the medians and their ratio.
#
#   benches/peers/start.sh FOXLAUNCH TORCHRUN [RUNS]
set -euo pipefail

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "usage: $0 FOXLAUNCH TORCHRUN [RUNS]" >&2
    exit 2
fi
foxlaunch=$1 torchrun=$2 runs=${3:-11}
for program in "$foxlaunch" "$torchrun"; do
    command -v "$program" > /dev/null || { echo "$program cannot be executed" >&2; exit 126; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
foxlaunch=$(realpath "$(command -v "$foxlaunch")") torchrun=$(realpath -s "$(command -v "$torchrun")")
cd "$folder" # run folders land here

# Runs a command without its output and appends its milliseconds to a file. A failure ends the script.
timed() {
    local file=$1 begin end
    shift
    begin=$(date +%s%N)
    "$@" > "$folder/out" 2>&1 || { cat "$folder/out" >&2; echo "failed: $*" >&2; exit 1; }
    end=$(date +%s%N)
    echo $(((end - begin) / 1000)) >> "$folder/$file"
}

for ((run = 0; run <= runs; run++)); do
    timed fox "$foxlaunch" --cpu --nproc 2 run -- true
    timed torch "$torchrun" --nproc-per-node 2 --no-python true
    # The first of each fills the caches and does not count.
    if [ "$run" -eq 0 ]; then rm "$folder/fox" "$folder/torch"; fi
done

sort -n "$folder/fox" > "$folder/fox.sorted"
sort -n "$folder/torch" > "$folder/torch.sorted"
awk -v runs="$runs" '
    FNR == 1 { file++ }
    { value[file, FNR] = $1 / 1000; count[file] = FNR }
    END {
        for (f = 1; f <= 2; f++) {
            n = count[f]; m = int((n + 1) / 2)
            median[f] = n % 2 ? value[f, m] : (value[f, m] + value[f, m + 1]) / 2
            printf "%s runs=%d median_ms=%.1f min_ms=%.1f max_ms=%.1f\n", f == 1 ? "foxlaunch" : "torchrun", n, median[f], value[f, 1], value[f, n]
        }
        printf "ratio=%.1f\n", median[2] / median[1]
    }' "$folder/fox.sorted" "$folder/torch.sorted"
