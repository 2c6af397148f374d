"""What it costs to keep what a worker prints: foxlaunch, torchrun with --tee, and `cat`, in turns on the same machine.

    benches/peers/logs.py FOXLAUNCH [TORCHRUN] [--mb N] [--runs N]

Two texts: lines of 80 bytes, and one line without an end. The console goes to /dev/null. For foxlaunch the processor's
time of guardian and supervisor alone is shown too, and their peak memory together; for `cat` its own.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
LIMIT = 600


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def spent(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:"))


def wait_for(there, child):
    begin = time.monotonic()
    while not there():
        if child.poll() is not None or time.monotonic() - begin > LIMIT:
            sys.exit(f"{child.args}: it ended with {child.poll()} or took longer than {LIMIT} s")
        time.sleep(0.001)


def launched(command, folder, size, log_of, is_ours):
    """Seconds until the log is whole; for ours also the launcher's processor time and memory."""
    go = os.path.join(folder, "go")
    begin = time.monotonic()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def whole():
        log = log_of()
        return log is not None and os.path.exists(log) and os.path.getsize(log) >= size

    wait_for(whole, child)
    took = time.monotonic() - begin
    cost = None
    if is_ours:
        pids = [child.pid, *children(child.pid)]
        cost = (sum(map(spent, pids)), sum(map(peak, pids)))
    open(go, "w").close()
    if child.wait(LIMIT) != 0:
        sys.exit(f"{command}: it ended with {child.returncode}")
    return took, cost


def find_log(folder):
    for root, _, files in os.walk(folder):
        if "stdout.log" in files:
            return os.path.join(root, "stdout.log")
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("foxlaunch")
    parser.add_argument("torchrun", nargs="?")
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    foxlaunch = os.path.realpath(options.foxlaunch)
    block = 50 << 20
    times = max(1, (options.mb << 20) // block)
    size = block * times
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as top:
        texts = {"lines of 80": (b"x" * 79 + b"\n") * (block // 80 + 1), "no line end": b"x" * block}
        for name, text in texts.items():
            source = os.path.join(top, "source")
            with open(source, "wb") as file:
                file.write(text[:block])
            # Waiting after the last byte, so that the launcher can be looked at.
            script = f"for i in $(seq {times}); do cat {source}; done; while [ ! -e go ]; do sleep 0.01; done"
            figures = {"foxlaunch": [], "torchrun --tee": [], "cat": []}
            costs, of_cat = [], []
            for _ in range(options.runs):
                with tempfile.TemporaryDirectory(dir=top) as folder:
                    log = os.path.join(folder, "run/logs/attempt-1/rank-0.log")
                    command = [foxlaunch, "-q", "--cpu", "run", "--out", "run", "--", "sh", "-c", script]
                    took, cost = launched(command, folder, size, lambda: log, True)
                    figures["foxlaunch"].append(took)
                    costs.append(cost)
                if options.torchrun:
                    with tempfile.TemporaryDirectory(dir=top) as folder:
                        command = [options.torchrun, "--tee", "1", "--log-dir", folder + "/logs", "--no-python", "sh", "-c", script]
                        took, _ = launched(command, folder, size, lambda: find_log(folder + "/logs"), False)
                        figures["torchrun --tee"].append(took)
                with tempfile.TemporaryDirectory(dir=top) as folder:
                    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                    reader = f"for i in $(seq {times}); do cat {source}; done | cat > {folder}/log"
                    subprocess.run(["sh", "-c", reader], check=True)
                    figures["cat"].append(time.monotonic() - begin)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    of_cat.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            median = {name: statistics.median(all) for name, all in figures.items() if all}
            gb = size / 1e9
            print(f"{name}, {gb:.2f} GB, medians of {options.runs}:")
            for what, seconds in median.items():
                print(f"  {what:15} {seconds:7.3f} s  {gb / seconds:6.2f} GB/s  {seconds / median['foxlaunch']:5.2f} of foxlaunch's")
            processor, memory = (statistics.median(values) for values in zip(*costs))
            print(f"  guardian and supervisor: {processor:.2f} s of processor, {gb / processor:.2f} GB/s per core, peak {memory:.1f} MiB together")
            print(f"  both cats: {statistics.median(of_cat):.2f} s of processor")


main()
