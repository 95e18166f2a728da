#!/usr/bin/python3
"""What sampling one container costs the others: a piece of work in one cgroup, brink sampling another one, A/B.

The sessions stay open; their perf events are switched off and on by turns (off on on off, windows of some 10 ms, beside.c), and
the work is measured by its own CPU time. Each figure is the median of the blocks' ratios on / off with its 95 % bootstrap
interval. Two rows say what the figures are worth: a dummy event in place of brink (the noise), and brink sampling the work's
own group (what a sample costs who is meant).

  spin    computing
  switch  two threads on one CPU that hand a byte to and fro: every context switch is one of the group's

usage: beside.py [--brink build/brink] [--blocks N] [--rate HZ] [--json]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from armed import Armed  # noqa: E402
from interval import interval  # noqa: E402
from run import perf_group  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = {"spin": 28_000, "switch": 3_000}  # operations of a window


class Beside:
    def __init__(self, folder, group):
        path = os.path.join(folder, "beside")
        subprocess.run(["gcc", "-O2", "-pthread", "-o", path, os.path.join(HERE, "beside.c")], check=True)
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline())
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as procs:
            procs.write(str(self.pid))
        os.setpriority(os.PRIO_PROCESS, self.pid, -15)

    def measure(self, pid, kind, blocks):
        """(median, low, high) in percent, and how many events were switched."""
        self.process.stdin.write(f"{pid} {kind} {WORK[kind]} {blocks}\n")
        self.process.stdin.flush()
        events, *pairs = [int(word) for word in self.process.stdout.readline().split()]
        ratios = [100 * (on / off - 1) for off, on in zip(pairs[::2], pairs[1::2])]
        return interval(ratios), events

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def v1_group(name):
    """A group that differs from others in a v1 controller only."""
    path = f"/sys/fs/cgroup/memory/{name}_{os.getpid()}"
    try:
        os.mkdir(path)
        return path
    except OSError:
        return None


def sessions(args, folder, other, own, v1):
    """name: words of brink, what it says once it is armed ("": it says nothing)"""
    record = ["record", "--source", "none", "-F", str(args.rate), "-g", "-o", os.path.join(folder, "data"), "--duration", "600s", "-G"]
    snap = ["snap", "--source", "none", "--if", "pid == 1", "--on"]
    rows = {
        f"record -F {args.rate} -g -G another group": ([*record, other], ""),
        f"snap sample:{args.rate}, another group": ([*snap, f"sample:{args.rate}", "--cgroup", other], "armed, Ctrl-C"),
    }
    if v1:
        rows["snap sample:99, another v1 group"] = ([*snap, "sample:99", "--cgroup", v1], "armed, Ctrl-C")
    rows[f"record -F {args.rate} -g -G the work's own group"] = ([*record, own], "")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--blocks", type=int, default=300)
    parser.add_argument("--rate", type=int, default=997)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    other, own, v1 = perf_group("brink_beside_other"), perf_group("brink_beside_own"), v1_group("brink_beside")
    if not other or not own:
        sys.exit("no cgroup hierarchy here that perf events can be limited to, or no rights to make groups in it")
    rows = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            beside = Beside(folder, own)
            for kind in WORK:
                rows.append(("a dummy event: the noise", kind, *beside.measure(0, kind, args.blocks)))
                for name, (words, ready) in sessions(args, folder, other, own, v1).items():
                    with Armed([args.brink, *words], ready, settle=1.5) as tracer:
                        rows.append((name, kind, *beside.measure(tracer.process.pid, kind, args.blocks)))
            beside.end()
    finally:
        for path in (other, own, v1):
            if path:
                os.rmdir(path)
    if args.json:
        print(json.dumps([{"session": name, "work": kind, "percent": middle, "low": low, "high": high, "events": events} for name, kind, (middle, low, high), events in rows], indent=1))
        return
    print(f"percent slower with brink's events on, median of {args.blocks} blocks off-on-on-off [95 % bootstrap]")
    for name, kind, (middle, low, high), events in rows:
        print(f"{kind:<8}{name:<48}{middle:+7.3f} [{low:+.3f}, {high:+.3f}]   ({events} events switched)")


if __name__ == "__main__":
    main()
