#!/usr/bin/python3
"""What a trigger costs the program that hits it, in ns of CPU time a hit, kind by kind: brink snap against bpftrace doing the
same thing, in interleaved rounds of one run.

  false     armed, the condition false at every hit: `--if 'pid == 1'` and `/pid == 1/`
  captured  every hit taken with kernel and user stack; the output goes to /dev/null

--filter instead: what a filter on one container costs the others. A system call's tracepoint with an empty program, with
brink filtered on another cgroup, interleaved; and a fixed piece of work beside `brink record -G` of another group.

usage: run.py [--brink build/brink] [--bpftrace bpftrace] [--rounds N] [--kinds a,b] [--filter] [--json]
"""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from armed import Armed  # noqa: E402

SAMPLE_HZ = 4999  # often enough to be told from the noise of the work itself
HERE = os.path.dirname(os.path.abspath(__file__))


class Load:
    def __init__(self, folder):
        self.path = os.path.join(folder, "load")
        subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-no-pie", "-o", self.path, os.path.join(HERE, "load.c")], check=True)
        self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid, self.watched = re.match(r"pid (\d+) watched (0x[0-9a-f]+)", self.process.stdout.readline()).groups()
        # What else runs on the machine interrupts less.
        try:
            os.setpriority(os.PRIO_PROCESS, int(self.pid), -15)
            # Its children too: one that starts on another CPU pays for a cold one.
            os.sched_setaffinity(int(self.pid), {max(os.sched_getaffinity(0))})
        except PermissionError:
            pass

    def run(self, kind, count):
        self.process.stdin.write(f"{kind} {count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def brink(args, words):
    return Armed([args.brink, "snap", "--source", "none", *words], "armed, Ctrl-C")


def bpftrace(args, program):
    # It says that it attaches before it does; there is nothing later to wait for.
    return Armed(["sh", "-c", 'exec "$0" -e "$1" 3>&1 >&2 2>&3', args.bpftrace, program], "Attaching", settle=1.5)


def kinds(load):
    """name: (work, hits a round, brink's trigger, bpftrace's probe)"""
    path = load.path
    return {
        "raw_tracepoint": ("syscall", 100_000, "raw_tracepoint:sys_enter", "rawtracepoint:sys_enter"),
        "tracepoint": ("syscall", 100_000, "tracepoint:raw_syscalls:sys_enter", "tracepoint:raw_syscalls:sys_enter"),
        "syscall enter": ("syscall", 100_000, "syscall:getppid:enter", "tracepoint:syscalls:sys_enter_getppid"),
        "syscall exit": ("syscall", 100_000, "syscall:getppid", "tracepoint:syscalls:sys_exit_getppid"),
        "kprobe": ("syscall", 100_000, "kprobe:__x64_sys_getppid", "kprobe:__x64_sys_getppid"),
        "fentry": ("syscall", 100_000, "fentry:__x64_sys_getppid", "kfunc:__x64_sys_getppid"),
        "uprobe": ("function", 20_000, f"uprobe:{path}:load_function", f"uprobe:{path}:load_function"),
        "uretprobe": ("function", 20_000, f"uretprobe:{path}:load_function", f"uretprobe:{path}:load_function"),
        "usdt": ("probe", 20_000, f"usdt:{path}:load:probe", f"usdt:{path}:load:probe"),
        "signal": ("signal", 20_000, "signal:USR1:all", "tracepoint:signal:signal_deliver"),
        "exec": ("exec", 400, "exec", "tracepoint:sched:sched_process_exec"),
        "exit": ("exit", 4_000, "exit", "tracepoint:sched:sched_process_exit"),
        "watch": ("watch", 20_000, f"watch:{load.watched}:8:w", f"watchpoint:{load.watched}:8:w"),
        "sample": ("spin", 200_000, f"sample:{SAMPLE_HZ}", f"profile:hz:{SAMPLE_HZ}"),
    }


def a_hit(work, armed, bare):
    """ns a hit: one an operation, but samples come by the clock."""
    return (1 - bare / armed) * 1e9 / SAMPLE_HZ if work == "spin" else armed - bare


def table(args, load):
    rows = {}
    for name, (work, count, trigger, probe) in kinds(load).items():
        if args.kinds and name not in args.kinds.split(","):
            continue
        pid = load.pid
        tracers = {
            "brink false": lambda: brink(args, ["--on", trigger, "--if", "pid == 1"]),
            "bpftrace false": lambda: bpftrace(args, probe + ' /pid == 1/ { printf("%d %s %s %s", pid, comm, kstack, ustack); }'),
            "brink captured": lambda: brink(args, ["--on", trigger] + ([] if work in ("exec", "exit") else ["--if", f"pid == {pid}"])),
            "bpftrace captured": lambda: bpftrace(args, probe + ("" if work in ("exec", "exit") else f" /pid == {pid}/") + ' { printf("%d %s %s %s", pid, comm, kstack, ustack); }'),
        }
        if not args.bpftrace:
            tracers = {key: value for key, value in tracers.items() if key.startswith("brink")}
        times, failed = {key: [] for key in ["bare", *tracers]}, {}
        for _ in range(args.rounds):
            times["bare"].append(load.run(work, count))
            for key, start in tracers.items():
                if key in failed:
                    continue
                # Every hit that is captured is unwound and sent: fewer do.
                few = count if key.endswith("false") or work == "spin" else max(count // 10, 20)
                try:
                    with start():
                        load.run(work, few // 10 + 1)
                        times[key].append(load.run(work, few))
                except RuntimeError as error:
                    failed[key] = str(error)
        bare = statistics.median(times["bare"])
        rows[name] = {"work": work, "bare": bare, "failed": failed, **{key: a_hit(work, statistics.median(values), bare) for key, values in times.items() if key != "bare" and values}}
        if not args.json:
            cells = "".join(f" {rows[name][key]:>12.0f}" if key in rows[name] else f" {'-':>12}" for key in tracers)
            print(f"{name:<16}{bare:>10.0f}{cells}", flush=True)
            for key, text in failed.items():
                print(f"    {key}: {text[:160]}", file=sys.stderr)
    return rows


def cgroup(name):
    for mount in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        path = f"{mount}/{name}_{os.getpid()}"
        try:
            os.mkdir(path)
            return path
        except OSError:
            continue
    sys.exit("cannot make a cgroup")


def perf_group(name):
    """A group of the hierarchy that perf events can be limited to."""
    mounts = [line.split() for line in open("/proc/mounts", encoding="ascii")]
    for wanted in (lambda m: m[2] == "cgroup" and "perf_event" in m[3].split(","), lambda m: m[2] == "cgroup2"):
        for mount in mounts:
            if wanted(mount):
                path = f"{mount[1]}/{name}_{os.getpid()}"
                try:
                    os.mkdir(path)
                    return path
                except OSError:
                    continue
    return None


def filtered(args, load):
    other = cgroup("brink_bench")
    group = perf_group("brink_bench_perf")
    # A run of spins takes some 10 ms: ten samples at 997 Hz, if there were any, in each. So the least of many runs has what
    # they would cost, and little of what the machine does besides.
    count, spins, spin_runs = 200_000, 20_000, 40
    times = {key: [] for key in ("bare", "empty program", "brink, another cgroup")}
    work = {"alone": [], "record -G another group": []}
    try:
        for _ in range(args.rounds):
            times["bare"].append(load.run("syscall", count))
            if not load.run("empty", 1):
                sys.exit("cannot load an empty program")
            times["empty program"].append(load.run("syscall", count))
            load.run("empty", 0)
            with brink(args, ["--on", "raw_tracepoint:sys_enter", "--cgroup", other]):
                times["brink, another cgroup"].append(load.run("syscall", count))
            if not group:
                continue
            # Both after the same pause: a virtual CPU that has slept is slower for a while.
            time.sleep(1.5)
            work["alone"] += [load.run("spin", spins) for _ in range(spin_runs)]
            with tempfile.TemporaryDirectory() as folder:
                recorder = subprocess.Popen([args.brink, "record", "-q", "--source", "none", "-F", "997", "-g", "-G", os.path.basename(group), "-o", os.path.join(folder, "data"), "--duration", "60s"],
                                            stderr=subprocess.PIPE, text=True)
                time.sleep(1.5)
                work["record -G another group"] += [load.run("spin", spins) for _ in range(spin_runs)]
                recorder.send_signal(signal.SIGINT)
                said = recorder.communicate()[1]
                if recorder.returncode not in (0, 3):
                    print(f"record -G: {said.strip()[:200]}", file=sys.stderr)
                    group = None
    finally:
        for path in (other, group):
            if path:
                os.rmdir(path)
    medians = {key: statistics.median(values) for key, values in times.items() if values}
    out = {"ns a hit": medians, "above an empty program": medians["brink, another cgroup"] - medians["empty program"]}
    if work["record -G another group"]:
        alone, beside = (min(work[key]) for key in ("alone", "record -G another group"))
        out["work beside record -G, percent slower"] = 100 * (beside / alone - 1)
    if not args.json:
        for key, value in medians.items():
            print(f"{key:<28}{value:8.1f} ns a call")
        print(f"a filter on another container, above an empty program: {out['above an empty program']:.1f} ns (bar 100)")
        if "work beside record -G, percent slower" in out:
            print(f"fixed work beside record -G of another group: {out['work beside record -G, percent slower']:+.2f} % (bar 1)")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--bpftrace", default=shutil.which("bpftrace") or "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--filter", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = Load(folder)
        if not args.filter and not args.json:
            print(f"{'kind':<16}{'bare ns':>10}{'brink false':>13}{'bpftrace':>13}{'brink capt.':>13}{'bpftrace':>13}   (above bare)")
        result = filtered(args, load) if args.filter else table(args, load)
        load.end()
    if args.json:
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
