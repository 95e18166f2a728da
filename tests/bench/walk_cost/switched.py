#!/usr/bin/python3
"""What walking costs the target beyond perf, closely: one brink record and one perf record stay attached to a driver that
runs a program over and over, and their sampling events are switched by turns (bare perf brink brink perf bare), so that a slow
moment of the machine weighs on all three. The program's own CPU time is compared (user and system, of its rusage); starting
and ending a recorder, which is not the target's slowdown, is left out. Medians of the rounds' ratios with 95 % bootstrap intervals.

The first row, with nothing attached, says what the figures are worth.

usage: switched.py [--brink build/brink] [--rate HZ] [--rounds N] [--record OPTIONS] [--programs LIST] [--json]
"""
import argparse
import ctypes
import fcntl
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from armed import Armed  # noqa: E402
from interval import interval  # noqa: E402
from run import PROGRAMS, command_of, inputs  # noqa: E402

ENABLE, DISABLE = 0x2400, 0x2401  # PERF_EVENT_IOC_*
PIDFD_GETFD = 438
ROUND = ("bare", "perf", "brink", "brink", "perf", "bare")

# Runs what each line of its input says and answers with the CPU time of that, in microseconds.
DRIVER = """
import json, os, sys
null = os.open(os.devnull, os.O_RDWR)
print(os.getpid(), flush=True)
for line in sys.stdin:
    argv = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.dup2(null, 0); os.dup2(null, 1)
        os.execvp(argv[0], argv)
    _, status, used = os.wait4(pid, 0)
    print(status, int(1e6 * (used.ru_utime + used.ru_stime)), flush=True)
"""


class Events:
    """The sampling events of a recorder, taken from it by descriptor."""

    def __init__(self, pid):
        libc = ctypes.CDLL(None, use_errno=True)
        process, self.fds = os.pidfd_open(pid), []
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                what = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if what == "anon_inode:[perf_event]":
                fd = libc.syscall(PIDFD_GETFD, process, int(name), 0)
                if fd >= 0:
                    self.fds.append(fd)
        os.close(process)
        if not self.fds:
            sys.exit(f"process {pid} has no perf events")

    def switch(self, on):
        for fd in self.fds:
            try:
                fcntl.ioctl(fd, ENABLE if on else DISABLE, 0)
            except OSError:
                pass  # one that cannot be switched: a tracepoint's

    def close(self):
        for fd in self.fds:
            os.close(fd)


class Driver:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.pid = int(self.process.stdout.readline())

    def run(self, argv):
        self.process.stdin.write(json.dumps(argv) + "\n")
        self.process.stdin.flush()
        status, used = [int(word) for word in self.process.stdout.readline().split()]
        if status:
            sys.exit(f"{shlex.join(argv)}: wait status {status}")
        return used

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure(driver, argv, events, rounds):
    """Per way the ratios of its two runs of a round to the two bare ones, in percent; and the CPU seconds of a bare run."""
    ratios, bare = {"perf": [], "brink": [], "beyond": []}, []
    for way in ROUND[:3]:
        for name in events:
            events[name].switch(name == way)
        driver.run(argv)
    for _ in range(rounds):
        used = dict.fromkeys(ROUND, 0)
        for way in ROUND:
            for name in events:
                events[name].switch(name == way)
            used[way] += driver.run(argv)
        for name in ("perf", "brink"):
            ratios[name].append(100 * (used[name] / used["bare"] - 1))
        ratios["beyond"].append(100 * (used["brink"] - used["perf"]) / used["bare"])
        bare.append(used["bare"] / 2e6)
    return ratios, statistics.median(bare)


def attached(args, folder, argv):
    """A program's row."""
    driver = Driver()
    try:
        brink = [args.brink, "record", *shlex.split(args.record), "-F", args.rate, "-o", f"{folder}/b.data", "--duration", "3600s", "-p", str(driver.pid)]
        perf = ["perf", "record", "-B", "-N", "-e", "cpu-clock", "-F", args.rate, "-o", f"{folder}/p.data", "-p", str(driver.pid)]
        with Armed(brink, "", settle=1.5) as one, Armed(perf, "", settle=1.0) as other:
            events = {"brink": Events(one.process.pid), "perf": Events(other.process.pid)}
            try:
                return measure(driver, argv, events, args.rounds)
            finally:
                for each in events.values():
                    each.switch(True)
                    each.close()
    finally:
        driver.end()


def tell(table, name, measured, args):
    ratios, bare = measured
    row = table[name] = {"bare_s": bare, **{way: interval(values) for way, values in ratios.items()}}
    cells = "   ".join(f"{way} {row[way][0]:+6.2f} [{row[way][1]:+.2f}, {row[way][2]:+.2f}]" for way in ("perf", "brink", "beyond"))
    if not args.json:
        print(f"{name:<26}{bare:6.3f} s   {cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--rate", default="1000")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--record", default="--source walk")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    table = {}
    if not args.json:
        print(f"CPU time of the program beyond bare, percent: median of {args.rounds} rounds [95 % bootstrap], {args.rate} Hz, {args.record}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        names = inputs(folder)
        commands = {}
        for program in args.programs.split(","):
            commands[program] = command_of(program, names)
        driver = Driver()
        first = next(iter(commands))
        tell(table, f"{first}, nothing attached", measure(driver, commands[first], {}, args.rounds), args)
        driver.end()
        for program, argv in commands.items():
            tell(table, program, attached(args, folder, argv), args)
    if args.json:
        print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
