#!/usr/bin/python3
"""brink latency against cyclictest: alternated runs (ABBA, never at the same time), same policy, CPU, mlock and
/dev/cpu_dma_latency, medians and p90 of the pooled samples of each run with bootstrap intervals; CPU time; --blame's cost.

    tests/bench/latency/run.py [--brink build/brink] [--runs 10] [--seconds 5] [--cpu N] [--priority 80]
"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from interval import interval  # noqa: E402

BUCKETS = 5000


def histogram(text):
    counts = {}
    for line in text.splitlines():
        found = re.match(r"^(\d{6}) (\d+)", line)
        if found and int(found[2]):
            counts[int(found[1])] = int(found[2])
    return counts


def percentile(counts, percent):
    total = sum(counts.values())
    wanted, seen = total * percent / 100, 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= wanted:
            return value
    return None


def run(program, options, length):
    """One run; `length`: the words that end it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = program + ["-q", "-m", "-h", str(BUCKETS), "-i", "1000", "-a", str(options.cpu), "-p", str(options.priority), *length]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    counts = histogram(done.stdout)
    return {"p50": percentile(counts, 50), "p90": percentile(counts, 90), "cpu_ms_per_s": cpu * 1000 / options.seconds, "cpu_ms": cpu * 1000}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--cyclictest", default="/usr/bin/cyclictest")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--priority", type=int, default=80)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "cyclictest")
        os.symlink(os.path.abspath(options.brink), link)
        tools = {"cyclictest": [options.cyclictest], "brink": [link], "brink --blame": [link, "--blame=100000"]}
        results, starts = {name: [] for name in tools}, {name: [] for name in tools}
        order = list(tools)
        for index in range(options.runs):
            # A B C, C B A, ...: drift of the machine falls on all alike.
            for name in order if index % 2 == 0 else reversed(order):
                results[name].append(run(tools[name], options, ["-D", str(options.seconds)]))
                starts[name].append(run(tools[name], options, ["-l", "1"])["cpu_ms"])
    print(f"{options.runs} runs of {options.seconds} s each, CPU {options.cpu}, SCHED_FIFO {options.priority}, 1 ms; medians of runs [95 % bootstrap]")
    summary = {}
    # Is in the figures of the runs as well: nothing is taken off.
    for name in tools:
        print(f"{'start, ms':12} {name:14} {'%8.1f [%.1f .. %.1f]' % interval(starts[name])}")
    for figure in ("p50", "p90", "cpu_ms_per_s"):
        for name in tools:
            summary[figure, name] = interval([r[figure] for r in results[name]])
            middle, low, high = summary[figure, name]
            print(f"{figure:12} {name:14} {middle:8.1f} [{low:.1f} .. {high:.1f}]")

    def agree(figure, a, b, allowed):
        (x, xl, xh), (y, yl, yh) = summary[figure, a], summary[figure, b]
        return (xl <= yh and yl <= xh) or abs(x - y) <= allowed

    verdicts = {
        "median agrees": agree("p50", "cyclictest", "brink", 2),
        "p90 agrees": agree("p90", "cyclictest", "brink", 2),
        "no more CPU": summary["cpu_ms_per_s", "brink"][1] <= summary["cpu_ms_per_s", "cyclictest"][2],
        "blame <= 3 us": summary["p50", "brink --blame"][0] - summary["p50", "brink"][0] <= 3,
    }
    for name, good in verdicts.items():
        print(f"{name}: {'yes' if good else 'NO'}")
    print(json.dumps({"runs": results}), file=sys.stderr)
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
