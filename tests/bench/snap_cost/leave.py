#!/usr/bin/python3
"""How long Ctrl-C takes to the prompt with a thousand uprobes set, at this process's own priority.

Probes every function of the C library whose name begins with a letter from a to p, in one sleeping process, N times.

usage: leave.py [--brink build/brink] [--rounds N] [--json]
"""
import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import time


def once(brink):
    """(uprobes, seconds to be armed, seconds from the signal to the end)"""
    target = subprocess.Popen(["sleep", "300"])
    try:
        begin = time.monotonic()
        snap = subprocess.Popen([brink, "snap", "--on", "uprobe:libc:[a-p]*", "--if", "pid == 1", "-p", str(target.pid)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = ""
        while "armed, Ctrl-C" not in said:
            line = snap.stderr.readline()
            if not line:
                sys.exit(said)
            said += line
        armed = time.monotonic() - begin
        begin = time.monotonic()
        snap.send_signal(signal.SIGINT)
        snap.stderr.read()
        snap.wait()
        places = re.search(r"uprobe_multi at (\d+)", said)
        return int(places.group(1)) if places else 0, armed, time.monotonic() - begin
    finally:
        target.kill()
        target.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rounds = [once(args.brink) for _ in range(args.rounds)]
    ends = [end for _, _, end in rounds]
    result = {"uprobes": rounds[0][0], "rounds": args.rounds, "armed_s": statistics.median(armed for _, armed, _ in rounds),
              "end_s_median": statistics.median(ends), "end_s_most": max(ends)}
    if args.json:
        print(json.dumps(result))
    else:
        print("{uprobes} uprobes, {rounds} rounds: armed after {armed_s:.2f} s; Ctrl-C to the prompt {end_s_median:.3f} s (median), {end_s_most:.3f} s (most); bar 1 s".format(**result))


if __name__ == "__main__":
    main()
