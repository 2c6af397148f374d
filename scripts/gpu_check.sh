#!/usr/bin/env bash
# Checks everything that needs NVIDIA devices, on a machine with two of them (with one, what one can show; the rest is
# listed as skipped), Python 3 with PyTorch (its wheels bring CUDA's
# libraries), no Rust and no network. Takes what scripts/gpu_pack.sh packed. Goes on after failures, prints a table last, and ends
# with 1 if anything failed. Under 9 minutes.
#
# Usage: scripts/gpu_check.sh [PACK_DIR] [OUT]      PACK_DIR defaults to .gpu, OUT to $OUT or ./gpu_check_out.
set -uo pipefail

pack=$(cd "${1:-.gpu}" && pwd) || exit 2
out=${2:-${OUT:-gpu_check_out}}
mkdir -p "$out"
out=$(cd "$out" && pwd)
bin=$(mktemp -d /tmp/foxlaunch-gpu.XXXXXX)
python3 - "$pack/pack.tar.xz" "$bin" <<'PY' || exit 2
import sys, tarfile
tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])
PY
chmod +x "$bin"/fox*
export PATH=$bin:$PATH
LD_LIBRARY_PATH=$(python3 - <<'PY'
import glob, os
import nvidia
parts = sorted({os.path.dirname(f) for root in nvidia.__path__ for f in glob.glob(root + "/**/lib*.so*", recursive=True)})
print(":".join(parts + [p for p in [os.environ.get("LD_LIBRARY_PATH", "")] if p]))
PY
)
export LD_LIBRARY_PATH
cd "$out" || exit 2 # where `run` makes its run folders
steps=${STEPS:-32000} # environment steps for each fold
results=$out/results.tsv
: >"$results"

record() { # NAME PASS|FAIL SECONDS NOTE
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$results"
    printf '%-4s %-28s %6s s  %s\n' "$2" "$1" "$3" "$4"
}

check() { # NAME LIMIT COMMAND...: passes if the command or function ends with 0 in time; its output is in $out/NAME.log
    local name=$1 limit=$2 start=$EPOCHREALTIME code=0 note=''
    shift 2
    timeout -k 5 "$limit" bash -c '"$@"' check "$@" >"$out/$name.log" 2>&1 || code=$?
    if ((code != 0)); then
        note=$(grep -m1 'fox-test-gpu: ' "$out/$name.log" || grep -v '^[[:space:]]*$' "$out/$name.log" | tail -1)
        note="code $code: ${note:0:140}"
    fi
    record "$name" "$([[ $code == 0 ]] && echo PASS || echo FAIL)" "$(since "$start")" "$note"
    return $code
}

since() { python3 -c 'import sys, time; print(f"{time.time() - float(sys.argv[1]):.1f}")' "$1"; }

on_gpus() { # GPUS COMMAND...: one process for each device, each seeing its own only
    local gpus=$1
    shift
    # Like our own worker: NCCL listens on loopback only.
    NCCL_SOCKET_IFNAME=lo NCCL_RAS_ENABLE=0 FOXLAUNCH_CHECK_COLLECTIVES=0 \
        foxlaunch --gpus "$gpus" --visible own --log-dir "$out/logs-$RANDOM$RANDOM" run -- "$@"
}
export -f on_gpus
export out

own_device() { # FILE: of nvidia-smi's samples; passes if each process had one device, and no device two processes
    python3 - "$1" <<'PY'
import sys
pairs = {tuple(f.strip() for f in line.split(",")[:2]) for line in open(sys.argv[1]) if "," in line}
pids, devices = [p for _, p in pairs], [d for d, _ in pairs]
print("processes and devices seen:", sorted(pairs))
sys.exit(not (len(pairs) == 2 and len(set(pids)) == 2 and len(set(devices)) == 2))
PY
}

watch() { # PID: of all that descends from it, each process with the devices it was given, and each socket it listens on
    python3 - "$1" <<'PY'
import glob, os, sys
parents = {}
for stat in glob.glob("/proc/[0-9]*/stat"):
    try: text = open(stat).read()
    except OSError: continue
    parents[int(stat.split("/")[2])] = int(text.rsplit(")", 1)[1].split()[1])
ours = {int(sys.argv[1])}
while more := {pid for pid, parent in parents.items() if parent in ours} - ours: ours |= more
inodes = {}
for pid in ours:
    for fd in glob.glob(f"/proc/{pid}/fd/*"):
        try: inodes[os.readlink(fd)] = pid
        except OSError: pass
    try: environ = dict(v.split("=", 1) for v in open(f"/proc/{pid}/environ").read().split("\0") if "=" in v)
    except OSError: continue
    if "FOXLAUNCH_CHANNEL" in environ: print("worker", pid, "sees", environ.get("CUDA_VISIBLE_DEVICES"))
for table in ("tcp", "tcp6"):
    for line in list(open(f"/proc/net/{table}"))[1:]:
        f = line.split()
        if f[3] == "0A" and f"socket:[{f[9]}]" in inodes:
            local = f[1].split(":")[0] in ("0100007F", "00000000000000000000000001000000")
            print("listens", table, f[1], "loopback" if local else "OPEN TO OTHERS")
PY
}

train() { # NAME GPUS
    local name=$1 gpus=$2 run=$out/run-$1 pid
    rm -rf "$run"
    : >"$out/$name.apps"
    : >"$out/$name.sockets"
    foxlaunch --gpus "$gpus" train dqn --steps "$steps" --out "$run" &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader >>"$out/$name.apps"
        watch "$pid" >>"$out/$name.sockets"
        sleep 0.5
    done
    wait "$pid"
}
export -f train watch
export steps

# shellcheck source=scripts/gpu_faults.sh
source "$bin/gpu_faults.sh"
export -f since

parity() {
    on_gpus 0 fox-test-gpu parity "$out/parity-1.json" && on_gpus 0,1 fox-test-gpu parity "$out/parity-2.json" "$out/parity-1.json"
}
peer() { python3 -m torch.distributed.run --nproc-per-node 2 "$1/torch_allreduce.py" --device cuda; }
only_loopback() { sort "$1" | uniq -c; grep -q loopback "$1" && ! grep -q 'OPEN TO OTHERS' "$1"; }
export -f own_device parity peer only_loopback

parity_with_cpu() { # the same batches on two processes of the processor and on one device
    foxlaunch --cpu --nproc 2 run -- fox-test-gpu parity "$out/parity-cpu.json" && on_gpus 0 fox-test-gpu parity "$out/parity-1.json" "$out/parity-cpu.json"
}
update() { # GPUS
    on_gpus "$1" fox-test-gpu update vanilla 256 256,128,64 && on_gpus "$1" fox-test-gpu update rainbow 256 256,128,64 &&
        on_gpus "$1" fox-test-gpu replayed vanilla 256 256,128,64 && on_gpus "$1" fox-test-gpu replayed rainbow 256 256,128,64
}
peer_rainbow() { # FOLDER RANKS
    python3 -m torch.distributed.run --nproc-per-node "$2" "$1/torch_rainbow.py" --device cuda --mode graph
    python3 -m torch.distributed.run --nproc-per-node "$2" "$1/torch_rainbow.py" --device cuda --mode compile+graph
}
step() { on_gpus "$1" fox-test-gpu step 51,256,128,64,3 256; }
peer_mlp() { # FOLDER RANKS
    python3 -m torch.distributed.run --nproc-per-node "$2" "$1/torch_mlp.py" --device cuda --mode graph
    python3 -m torch.distributed.run --nproc-per-node "$2" "$1/torch_mlp.py" --device cuda --mode eager
}
export -f parity_with_cpu update peer_rainbow step peer_mlp

nvidia-smi -L | tee "$out/nvidia-smi.txt"
gpus=$(grep -c '^GPU' "$out/nvidia-smi.txt")
check2() { # as check, for what needs two devices
    if ((gpus >= 2)); then check "$@"; else record "$1" SKIP 0 "needs two GPUs, and this machine has $gpus"; fi
}
check devices 60 foxlaunch devices
check2 device-of-each-rank 60 on_gpus 0,1 fox-test-gpu device
check kernels 60 on_gpus 0 fox-test-gpu kernels
check network 60 on_gpus 0 fox-test-gpu network
check replay 60 on_gpus 0 fox-test-gpu replay
check2 replay-2 60 on_gpus 0,1 fox-test-gpu replay
check laws-alone 90 on_gpus 0 fox-test-gpu laws
check2 laws 90 on_gpus 0,1 fox-test-gpu laws
check parity-with-cpu 90 parity_with_cpu
check2 parity 90 parity
check train-1 150 train 1 0
check2 train-2 120 train 2 0,1
check2 train-2-own-device 10 own_device "$out/2.apps"
check2 train-2-loopback 10 only_loopback "$out/2.sockets"
check2 allreduce 60 on_gpus 0,1 fox-test-gpu allreduce
check2 allreduce-torch 90 peer "$bin"
check update-1 60 update 0
check update-torch-1 120 peer_rainbow "$bin" 1
check2 update-2 60 update 0,1
check step-1 60 step 0
check step-torch-1 90 peer_mlp "$bin" 1
check2 step-2 60 step 0,1
check2 step-torch-2 90 peer_mlp "$bin" 2
check kill-training-alone 60 kill_training 0
check memory-after-a-kill 60 memory
check2 kill-in-driver 45 kill_one driver
check2 kill-in-call 45 kill_one call
check2 kill-training 60 kill_training 0,1
check2 kill-guardian 60 kill_launcher guardian
check2 kill-supervisor 60 kill_launcher supervisor
check2 kill-in-init 90 kill_init
check2 stuck-kernel 60 stuck_kernel
check2 restart 60 restart
check2 torch-ddp 120 ddp "$bin/ddp.py"

python3 - "$out" "$steps" <<'PY' | tee "$out/table.txt"
import json, os, re, sys
out, steps = sys.argv[1], int(sys.argv[2])

def lines(name):
    path = os.path.join(out, name)
    return open(path, errors="replace").read().splitlines() if os.path.exists(path) else []

def all_reduce(name):
    found = {}
    for line in lines(name):
        m = re.search(r"bytes=(\d+) us=([\d.]+) busbw_GBps=([\d.]+)", line)
        if m: found[int(m[1])] = (float(m[2]), float(m[3]))
    return found

def last_of_each_fold(gpus):
    found = {}
    for line in lines(f"run-{gpus}/metrics.jsonl"): found[json.loads(line)["fold"]] = line
    return found.values()

ours, theirs = all_reduce("allreduce.log"), all_reduce("allreduce-torch.log")
if ours or theirs:
    print("\nall-reduce, 2 GPUs, f32 sum in place")
    print(f"{'bytes':>12} {'foxlaunch us':>13} {'GB/s':>8} {'torch us':>10} {'GB/s':>8} {'ours/torch':>11}")
for size in sorted(ours | theirs):
    (a, ab), (b, bb) = ours.get(size, (0, 0)), theirs.get(size, (0, 0))
    print(f"{size:12} {a:13.1f} {ab:8.2f} {b:10.1f} {bb:8.2f} {a / b if b else 0:11.2f}")

print(f"\ntrain dqn --steps {steps}")
for gpus in (1, 2):
    events = [json.loads(l) for l in lines(f"run-{gpus}/events.jsonl") if l.startswith("{")]
    at = lambda name: [e["t"] for e in events if e.get("event") == name]
    first, last, ready = at("first_step"), at("exit"), at("ready")
    if not first or not last:
        if events: print(f"{gpus} GPU(s): no first step")
        continue
    evaluation = os.path.join(out, f"run-{gpus}", "evaluation")
    folds = len(os.listdir(evaluation)) if os.path.isdir(evaluation) else 1
    seconds = max(last) - min(first)
    updates = sum(int(json.loads(l)["update"]) for l in last_of_each_fold(gpus))
    print(f"{gpus} GPU(s): ready after {max(ready):.2f} s, first step after {max(first):.2f} s, then {folds} folds in {seconds:.1f} s:"
          f" {steps * folds / seconds:.0f} environment steps/s, {updates / seconds:.0f} updates/s, evaluation included")
for name in ("parity-with-cpu.log", "parity.log"):
    print("\n".join(l for l in lines(name) if "foxlaunch-parity" in l))
for name in sorted(os.listdir(out)):
    if name.endswith(".log"):
        for line in lines(name):
            if any(mark in line for mark in ("foxlaunch-fault", "foxlaunch-update", "torch-rainbow", "foxlaunch-step", "torch-mlp")): print(line)
PY

echo
column -t -s "$(printf '\t')" "$results" 2>/dev/null || cat "$results"
rm -rf "$bin"
! grep -q "$(printf '\tFAIL\t')" "$results"
