#!/usr/bin/python3
"""Walk against hop: branches recorded per second of target slowdown, of the same program in interleaved runs. A program of
fixed work runs bare, under `record --source walk` and under `record --source hop`. Slowdown is counted in CPU time, which
other load disturbs less than elapsed time: the median of the program's own (walks happen in it) above the bare median; for
hop also the time of its helper, for which the program stands still. Prints the ratio of the two (the bar is 20).

usage: run.py [--brink build/brink] [--repeat N] [--walk OPTIONS] [--hop OPTIONS] [--json]
"""
import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time


def once(argv):
    begin = time.monotonic()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(argv)}: status {done.returncode}: {done.stderr.decode(errors='replace')[-800:]}")
    return time.monotonic() - begin, done.stderr.decode(errors="replace")


def timed_program(folder):
    """The program prints its own CPU time, so that brink's start and end are not counted."""
    path = os.path.join(folder, "timed")
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexec perl -e 'my $t = join \"\", map { chr(65 + $_ * 7919 % 26) } 1..4000;"
                   " my %n; for my $i (1..3000) { $n{$1}++ while $t =~ /([A-M]{2})/g; } my ($u, $s) = times; printf STDERR \"cpu %.6f\\n\", $u + $s;'\n")
    os.chmod(path, 0o755)
    return [path]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--walk", default="-F 4000 --walk-share 0", help="options of the walk (default: %(default)s)")
    parser.add_argument("--hop", default="-F 100", help="options of hop (default: %(default)s)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = timed_program(folder)
        data = os.path.join(folder, "data")
        record = [args.brink, "record", "-o", data]
        rows = {"bare": program, "walk": record + ["--source", "walk", *shlex.split(args.walk), "--"] + program,
                "hop": record + ["--source", "hop", *shlex.split(args.hop), "--"] + program}
        times, branches = {name: [] for name in rows}, {name: [] for name in rows}
        for _ in range(args.repeat):
            for name, argv in rows.items():
                text = once(argv)[1]
                helper = re.search(r"ptrace helper took ([0-9.]+) ms", text)
                times[name].append(float(re.search(r"cpu ([0-9.]+)", text).group(1)) + (float(helper.group(1)) / 1e3 if helper else 0))
                found = re.search(r"samples, ([0-9,]+) branches", text)
                branches[name].append(int(found.group(1).replace(",", "")) if found else 0)
    bare = statistics.median(times["bare"])
    out = {"bare_s": bare}
    for name in ("walk", "hop"):
        slow = statistics.median(times[name]) - bare
        count = statistics.median(branches[name])
        out[name] = {"slowdown_percent": 100 * slow / bare, "branches": count, "branches_per_slow_second": count / max(slow, 1e-3)}
    out["ratio"] = out["walk"]["branches_per_slow_second"] / out["hop"]["branches_per_slow_second"]
    if args.json:
        print(json.dumps(out))
    else:
        print(f"bare {bare:.3f} s")
        for name in ("walk", "hop"):
            row = out[name]
            print(f"{name}: {row['branches']:.0f} branches, {row['slowdown_percent']:.2f} % slower, {row['branches_per_slow_second']:.0f} branches a second of slowdown")
        print(f"walk / hop: {out['ratio']:.1f}")


if __name__ == "__main__":
    main()
