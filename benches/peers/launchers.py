"""foxlaunch beside torchrun, as launchers: each does the same in turns, so that both meet the same machine.

  python launchers.py FOXLAUNCH TORCHRUN [--runs 9] [--ranks 2,16] [--seconds 10]

Prints a table: time to start and end `true`; from the death of one rank (kill -9) to the end of the job; memory (proportional set
size) and processor time of the launcher's own processes at rest, and with 16 ranks that each print 10 MB/s; processes left two
seconds after the launcher is killed with -9. Needs Linux, no root, and no PyTorch but torchrun's.
Torchrun passes its workers' output through only when told to (`--tee 3`); it is told so where output matters.
"""
import argparse, os, shutil, signal, statistics, subprocess, sys, tempfile, time

MARK = f"FOX_PEER_ID={os.getpid()}"
WRITER = """
import sys, time
line = b"x" * 99 + b"\\n"
chunk = line * (int(sys.argv[1]) // 10 // len(line))
end = time.monotonic() + float(sys.argv[2])
due = time.monotonic()
while due < end:
    sys.stdout.buffer.write(chunk); sys.stdout.buffer.flush()
    due += 0.1
    time.sleep(max(0, due - time.monotonic()))
"""


def environ(pid):
    try: return open(f"/proc/{pid}/environ", "rb").read().decode(errors="replace").split("\0")
    except OSError: return []


def ours():
    """pid -> True for a worker (or what one started), False for a launcher's own process."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        env = environ(pid)
        if MARK in env: found[int(pid)] = any(v.startswith("RANK=") for v in env)
    return found


def launchers(): return [pid for pid, worker in ours().items() if not worker]


def memory(pids):
    """Proportional set size of all, in MB."""
    total = 0
    for pid in pids:
        for line in open(f"/proc/{pid}/smaps_rollup"):
            if line.startswith("Pss:"): total += int(line.split()[1])
    return total / 1024


def processor(pids):
    """Seconds of processor time of all."""
    ticks = 0
    for pid in pids:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Launcher:
    def __init__(self, name, path, folder):
        self.name, self.path, self.folder = name, path, folder
        self.figures = {}

    def command(self, ranks, words, output=False):
        if self.name == "foxlaunch": return [self.path, "--cpu", "--nproc", str(ranks), "run", "--", *words]
        tee = ["--tee", "3", "--log-dir", os.path.join(self.folder, "torchrun-logs")] if output else []
        return [self.path, "--nproc-per-node", str(ranks), *tee, "--no-python", *words]

    def start(self, ranks, words, output=False, stdout=subprocess.DEVNULL):
        name, value = MARK.split("=")
        return subprocess.Popen(self.command(ranks, words, output), cwd=self.folder, env={**os.environ, name: value},
                                stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL)

    def note(self, what, value): self.figures.setdefault(what, []).append(value)


def settle(ranks, timeout=120):
    """Waits until all ranks run."""
    end = time.monotonic() + timeout
    while sum(ours().values()) < ranks:
        if time.monotonic() > end: sys.exit("the workers did not start")
        time.sleep(0.05)


def finish(process):
    process.send_signal(signal.SIGTERM)
    process.wait()
    for pid in ours(): os.kill(pid, signal.SIGKILL)
    while ours(): time.sleep(0.05)


def start(launcher, ranks):
    begin = time.monotonic()
    code = launcher.start(ranks, ["true"]).wait()
    if code != 0: sys.exit(f"{launcher.name} failed with {code}")
    launcher.note(f"start and end of true, {ranks} ranks, ms", (time.monotonic() - begin) * 1e3)


def death(launcher, ranks):
    died = os.path.join(launcher.folder, "died")
    script = os.path.join(launcher.folder, "die.sh")  # in a file, since torchrun changes `$$` in arguments
    with open(script, "w") as file:
        file.write(f"if [ $RANK = 1 ]; then sleep 1; date +%s.%N > {died}; kill -9 $$; fi; exec sleep 300\n")
    code = launcher.start(ranks, ["sh", script]).wait()
    end = time.time()
    if code == 0: sys.exit(f"{launcher.name} calls a killed rank a success")
    launcher.note(f"death of one of {ranks} ranks to the job's end, ms", (end - float(open(died).read())) * 1e3)


def rest(launcher, ranks, seconds):
    process = launcher.start(ranks, ["sleep", "1000"])
    settle(ranks)
    time.sleep(2)
    pids = launchers()
    before = processor(pids)
    time.sleep(seconds)
    launcher.note(f"processor at rest, {ranks} ranks, % of a core", (processor(pids) - before) / seconds * 100)
    launcher.note(f"memory at rest, {ranks} ranks, MB", memory(pids))
    finish(process)


def output(launcher, ranks, rate, seconds):
    """Ranks print `rate` bytes a second each, into a file on the other side."""
    path = os.path.join(launcher.folder, "console")
    with open(path, "wb") as console:
        process = launcher.start(ranks, [sys.executable, "-c", WRITER, str(rate), str(seconds)], True, console)
        settle(ranks)
        begin, pids, used, peak = time.monotonic(), launchers(), 0, 0
        while process.poll() is None:
            try: used, peak = processor(pids), max(peak, memory(pids))
            except OSError: break
            time.sleep(0.1)
        process.wait()
    what = f"{ranks} ranks printing {rate // 1000000} MB/s each"
    launcher.note(f"{what}: processor s for each GB", used / (ranks * rate * seconds / 1e9))
    launcher.note(f"{what}: peak memory, MB", peak)
    launcher.note(f"{what}: s for {seconds} s of it", time.monotonic() - begin)
    launcher.note(f"{what}: share of bytes on the console, %", 100 * os.path.getsize(path) / (ranks * rate * seconds))
    os.remove(path)
    for logs in ("runs", "torchrun-logs"): shutil.rmtree(os.path.join(launcher.folder, logs), ignore_errors=True)


def orphans(launcher, ranks):
    process = launcher.start(ranks, ["sh", "-c", "setsid sleep 300 & exec sleep 300"])
    settle(2 * ranks)
    process.kill()
    process.wait()
    time.sleep(2)
    left = ours()
    launcher.note(f"processes of {ranks} ranks left 2 s after kill -9", len(left))
    for pid in left: os.kill(pid, signal.SIGKILL)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("foxlaunch"), options.add_argument("torchrun")
    options.add_argument("--runs", type=int, default=9)
    options.add_argument("--ranks", default="2,16")
    options.add_argument("--seconds", type=int, default=10)
    options = options.parse_args()
    ranks = [int(n) for n in options.ranks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        both = [Launcher(name, os.path.abspath(shutil.which(path) or sys.exit(f"{path} cannot be executed")), folder)
                for name, path in (("foxlaunch", options.foxlaunch), ("torchrun", options.torchrun))]
        for n in ranks:
            for launcher in both: start(launcher, n)  # fills the caches
            for launcher in both: launcher.figures.clear() if n == ranks[0] else launcher.figures.pop(f"start and end of true, {n} ranks, ms")
            for _ in range(options.runs):
                for launcher in both: start(launcher, n)
            for _ in range(max(1, options.runs // 3)):
                for launcher in both: death(launcher, n)
            for launcher in both: rest(launcher, n, options.seconds)
        for launcher in both: output(launcher, 16, 10_000_000, options.seconds)
        for launcher in both: orphans(launcher, 2)
    print(f"{'':58} {'foxlaunch':>10} {'torchrun':>10} {'ratio':>8}")
    for what, values in both[0].figures.items():
        a, b = statistics.median(values), statistics.median(both[1].figures[what])
        print(f"{what:58} {a:10.1f} {b:10.1f} {b / a if a else float('nan'):8.1f}")


if __name__ == "__main__": main()
