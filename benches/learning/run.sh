#!/usr/bin/env bash
# How well the trainers learn: ten seeds of each file of settings in scripts/reproduce, whole seeds on different workers,
# 20 greedy episodes with the weights as training ended. Prints for each the interquartile mean over seeds with a 95 %
# interval, each seed's mean, and the time.
#
#   benches/learning/run.sh [NAME...]       as ppo-cartpole; all files without one
#
# FOXLAUNCH names the launcher (target/release/foxlaunch), SEEDS the seeds (0..9), WORKERS how many workers (2).
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
launcher="${FOXLAUNCH:-$root/target/release/foxlaunch}"
seeds="${SEEDS:-0..9}"
workers="${WORKERS:-2}"
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

names=("$@")
if [ "${#names[@]}" -eq 0 ]; then
    for file in "$root"/scripts/reproduce/*.toml; do
        names+=("$(basename "$file" .toml)")
    done
fi

for name in "${names[@]}"; do
    config="$root/scripts/reproduce/$name.toml"
    began="$(date +%s.%N)"
    "$launcher" -q --cpu --nproc "$workers" train "${name%%-*}" --config "$config" --parallel seeds --seeds "$seeds" --out "$out/$name"
    took="$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')"
    # the figures stand in the report
    python3 - "$name" "$out/$name/report.json" "$took" << 'EOF'
import json, sys
name, path, took = sys.argv[1:]
pooled = json.load(open(path))["pooled"]
low, high = pooled["interval"]
each = " ".join(f"{value:.1f}" for _, value in pooled["seeds"])
print(f"{name}: IQM {pooled['iqm']:.1f} [{low:.1f}, {high:.1f}], median {pooled['median']:.1f}, {took} s; seeds {each}")
EOF
done
