#!/usr/bin/python3
"""How long a new process of a group runs before it has its probe, and what a probe for everybody costs the others.

Programs that call a function at once and then each 50 us, started by a process of the group one after the other: the calls that were
not met are the time before the probe. For the others: the same function called by a process of another group, CPU time a call with
brink armed in each of the two ways and without it, by turns.

usage: gap.py [--brink build/brink] [--programs N] [--rounds N] [--json]
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from armed import Armed  # noqa: E402
from run import perf_group  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS, SPACING_US = 1000, 50


def build(folder, name):
    path = os.path.join(folder, name)
    subprocess.run(["gcc", "-O2", "-o", path, os.path.join(HERE, name + ".c")], check=True)
    return path


def words(brink, path, function, group, everybody):
    return [brink, "snap", "--on", f"uprobe:{path}:{function}", "--source", "none", "--if", "pid == 1", "--cgroup", group, *(["--probe-all"] if everybody else [])]


def missed_us(brink, path, group, how, programs, everybody):
    """Mean time of a program in us that was not met."""
    snap = subprocess.Popen(words(brink, path, "gap_function", group, everybody), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = ""
    while "armed, Ctrl-C" not in said:
        said += snap.stderr.readline() or sys.exit(said)
    enter = lambda: open(f"{group}/cgroup.procs", "w", encoding="ascii").write("0")  # noqa: E731
    subprocess.run([path, how, str(programs)], preexec_fn=enter, check=True)
    snap.send_signal(signal.SIGINT)
    said = snap.communicate()[1]
    hits = re.search(r"(\d+) hits", said)
    return (programs * CALLS - int(hits.group(1))) / programs * SPACING_US if hits else sys.exit(said)


class Other:
    """load.c in another group."""

    def __init__(self, path, group):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()  # says who it is
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as procs:
            procs.write(str(self.process.pid))

    def call_ns(self, count=20_000):
        self.process.stdin.write(f"function {count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[-1])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # the groups go all the same
    group, beside = perf_group("brink_gap"), perf_group("brink_gap_beside")
    if not group or not beside:
        sys.exit("no rights to make groups here")
    missed = {(how, everybody): [] for how in ("fork", "exec") for everybody in (False, True)}
    others = {name: [] for name in ("nobody armed", "in each process", "for everybody")}
    try:
        with tempfile.TemporaryDirectory() as folder:
            path, load = build(folder, "gap"), build(folder, "load")
            other = Other(load, beside)
            for _ in range(args.rounds):
                for (how, everybody), times in missed.items():
                    times.append(missed_us(args.brink, path, group, how, args.programs, everybody))
                others["nobody armed"].append(other.call_ns())
                for name, everybody in (("in each process", False), ("for everybody", True)):
                    with Armed(words(args.brink, load, "load_function", group, everybody), "armed, Ctrl-C"):
                        others[name].append(other.call_ns())
            other.end()
    finally:
        os.rmdir(group)
        os.rmdir(beside)
    rows = [{"started_by": how, "probes": "for everybody" if everybody else "in each process", "missed_us": statistics.median(times), "most_us": max(times)} for (how, everybody), times in missed.items()]
    costs = {name: statistics.median(times) for name, times in others.items()}
    if args.json:
        print(json.dumps({"missed": rows, "a_call_of_others_ns": costs}, indent=1))
        return
    for row in rows:
        print("{started_by:<6}{probes:<18}{missed_us:8.0f} us of a program not met (mean of a round; median of the rounds), {most_us:.0f} at most".format(**row))
    for name, cost in costs.items():
        print(f"a call of another group, {name:<16}{cost:10.0f} ns")


if __name__ == "__main__":
    main()
