#!/usr/bin/env bash
# The faults that only NVIDIA devices can show, as functions of scripts/gpu_check.sh, which sources this file. Each prints a
# line `foxlaunch-fault what=... ` with its times, and fails if a promise is broken.

started() { # RUN EVENT COUNT: waits until the run's events hold EVENT that often
    local found
    for _ in $(seq 600); do
        found=$(grep -c "\"event\":\"$2\"" "$1/events.jsonl" 2>/dev/null)
        ((${found:-0} >= $3)) && return 0
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

worker_of() { # RUN RANK: the pid of the rank's newest process
    python3 -c '
import json, sys
print([e["pid"] for e in map(json.loads, open(sys.argv[1])) if e["event"] == "spawn" and e["rank"] == int(sys.argv[2])][-1])' \
        "$1/events.jsonl" "$2"
}

free_devices() { # waits up to 10 s until no process is on a device
    for _ in $(seq 50); do
        nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader >"$out/left.apps"
        [[ -s $out/left.apps ]] || return 0
        sleep 0.2
    done
    echo "a device still has a process:"
    cat "$out/left.apps"
    return 1
}

job_ends() { # WHAT START: waits for $pid; it must fail within 5 s, and the devices must be free then
    local code
    wait "$pid"
    code=$?
    local seconds=$(since "$2")
    free_devices || return 1
    echo "foxlaunch-fault what=$1 exit_code=$code job_over_s=$seconds devices_free_s=$(since "$2")"
    [[ $code != 0 ]] && python3 -c 'import sys; sys.exit(float(sys.argv[1]) > 5)' "$seconds"
}

kill_one() { # driver|call: rank 1 is killed in the middle of an all-reduce
    local log=$out/stuck-$1.txt victim start
    on_gpus 0,1 fox-test-gpu stuck "$1" >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        [[ $(grep -c 'is reducing' "$log") == 2 ]] && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    victim=$(sed -n 's/.*foxlaunch-stuck rank=1 pid=\([0-9]*\).*/\1/p' "$log" | head -1)
    [[ -n $victim ]] || { echo "no rank 1 came to reduce"; tail -20 "$log"; kill "$pid"; return 1; }
    start=$EPOCHREALTIME
    kill -9 "$victim"
    job_ends "$1" "$start"
    local code=$?
    tail -15 "$log"
    return $code
}

begin_training() { # NAME GPUS: starts a training without end and waits for every rank's first step; sets pid, run, ranks
    run=$out/run-$1
    ranks=$(tr , '\n' <<<"$2" | wc -l)
    rm -rf "$run"
    foxlaunch --gpus "$2" train dqn --steps 10000000 --out "$run" &
    pid=$!
    started "$run" first_step "$ranks" || { echo "no first step"; kill "$pid"; return 1; }
    sleep 1
}

kill_training() { # GPUS: the last worker of a training that is under way is killed
    local start
    begin_training "killed-$1" "$1" || return 1
    start=$EPOCHREALTIME
    kill -9 "$(worker_of "$run" $((ranks - 1)))"
    job_ends "training-on-$ranks" "$start"
}

kill_launcher() { # guardian|supervisor: killed in a training on both devices; nothing may be left
    local start victim left
    begin_training "launcher-$1" 0,1 || return 1
    victim=$pid
    [[ $1 == guardian ]] || victim=$(tr ' ' '\n' <"/proc/$pid/task/$pid/children" | head -1)
    local workers="$(worker_of "$run" 0) $(worker_of "$run" 1)"
    start=$EPOCHREALTIME
    kill -9 "$victim"
    for _ in $(seq 100); do
        left=''
        for worker in $workers; do [[ -d /proc/$worker ]] && left+=" $worker"; done
        [[ -n $left ]] || break
        sleep 0.05
    done
    [[ -z $left ]] || { echo "workers survive:$left"; return 1; }
    local gone=$(since "$start")
    wait "$pid"
    local code=$?
    free_devices || return 1
    echo "foxlaunch-fault what=kill-$1 exit_code=$code workers_gone_s=$gone devices_free_s=$(since "$start")"
    [[ $code != 0 ]]
}

kill_init() { # rank 1 is killed at eight moments between its hello and its first step
    local start delay
    run=$out/run-init
    for delay in 0 0.1 0.2 0.3 0.45 0.6 0.75 0.9; do
        rm -rf "$run"
        foxlaunch --gpus 0,1 train dqn --steps 10000000 --out "$run" &
        pid=$!
        started "$run" hello 2 || { echo "no hello"; kill "$pid"; return 1; }
        sleep "$delay"
        start=$EPOCHREALTIME
        kill -9 "$(worker_of "$run" 1)"
        job_ends "init-$delay" "$start" || return 1
    done
}

stuck_kernel() { # the device of rank 1 never ends a kernel: the rank is named, the job ends, the devices are free
    local log=$out/stuck-kernel.txt start
    # The pid of foxlaunch itself: `on_gpus` in the background would be a shell's.
    NCCL_SOCKET_IFNAME=lo NCCL_RAS_ENABLE=0 FOXLAUNCH_CHECK_COLLECTIVES=0 \
        foxlaunch --gpus 0,1 --visible own --hang-timeout 3s run --out "$out/run-kernel" -- fox-test-gpu stuck kernel >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        grep -q spins "$log" && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    start=$EPOCHREALTIME
    wait "$pid"
    local code=$?
    local seconds=$(since "$start")
    free_devices || return 1
    tail -25 "$log"
    echo "foxlaunch-fault what=stuck-kernel exit_code=$code job_over_s=$seconds devices_free_s=$(since "$start") (3 s of it are --hang-timeout)"
    [[ $code == 90 ]] && tail -1 "$log" | grep -q 'rank 1 failed first: it hangs'
}

restart() { # a training on both devices loses a rank and is resumed: same metrics, next first step at most 4 s after the death
    local options="train dqn --smoke --set train.log_every=5 --set train.checkpoint_every=20"
    rm -rf "$out/run-whole" "$out/run-broken"
    # shellcheck disable=SC2086
    foxlaunch --gpus 0,1 $options --out "$out/run-whole" || return 1
    # shellcheck disable=SC2086
    foxlaunch --gpus 0,1 --max-restarts 2 $options --out "$out/run-broken" &
    pid=$!
    started "$out/run-broken" first_step 2 || return 1
    for _ in $(seq 200); do
        [[ -d $out/run-broken/checkpoints ]] && [[ $(find "$out/run-broken/checkpoints" -name manifest.json | wc -l) -ge 1 ]] && break
        sleep 0.02
    done
    kill -9 "$(worker_of "$out/run-broken" 1)"
    wait "$pid" || return 1
    cmp "$out/run-whole/metrics.jsonl" "$out/run-broken/metrics.jsonl" || { echo "the metrics differ"; return 1; }
    python3 - "$out/run-broken/events.jsonl" <<'PY'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
death = next(e["t"] for e in events if e["event"] == "exit")
first = max(e["t"] for e in events if e["event"] == "first_step" and e["attempt"] == 2)
print(f"foxlaunch-fault what=restart death_to_next_first_step_s={first - death:.2f}")
sys.exit(first - death > 4)
PY
}

memory() { # the first attempt holds 80 % of the device until it is killed; the second takes as much
    local log=$out/memory.txt code
    rm -rf "$out/run-memory"
    foxlaunch --gpus 0 --max-restarts 1 run --out "$out/run-memory" -- fox-test-gpu stuck memory >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        grep -q 'attempt=1 .*holds' "$log" && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "$(worker_of "$out/run-memory" 0)"
    wait "$pid"
    code=$?
    cat "$log"
    [[ $code == 0 ]] && grep -q 'attempt=2 .*holds' "$log" && echo "foxlaunch-fault what=memory exit_code=$code"
}

ddp() { # SCRIPT: PyTorch's DistributedDataParallel over NCCL, unmodified; on both devices, on one, and restarted
    foxlaunch --gpus 0,1 run "$1" --cuda && foxlaunch --gpus 1 run "$1" --cuda || return 1
    rm -f "$out/ddp-whole.pt" "$out/ddp-broken.pt"
    foxlaunch --gpus 0,1 run "$1" --cuda --checkpoint "$out/ddp-whole.pt" | tee "$out/ddp-whole.txt" || return 1
    foxlaunch --gpus 0,1 --max-restarts 2 run "$1" --cuda --checkpoint "$out/ddp-broken.pt" --die-at 4 | tee "$out/ddp-broken.txt" || return 1
    [[ $(grep -o 'loss .*' "$out/ddp-whole.txt") == $(grep -o 'loss .*' "$out/ddp-broken.txt") ]] &&
        echo "foxlaunch-fault what=ddp same loss and weights after a restart"
}

export -f started worker_of free_devices job_ends kill_one begin_training kill_training kill_launcher kill_init stuck_kernel restart memory ddp
