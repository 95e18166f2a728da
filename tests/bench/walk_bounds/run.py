#!/usr/bin/python3
"""Whether walks keep within what they are allowed, and what the collector itself takes:

budget     the time of every sample of a program, as a histogram, against its budget; in both modes, at several budgets
bucket     -F 50000: walk time of a CPU against --walk-share, and what was counted as throttled
collector  CPU time and memory of brink at 1 kHz, of a program of some ten seconds (what it lifts at the start is a fixed
           amount, not a rate): its own high-water mark, and the memory of the BPF maps it made

Prints one table each, and ends with status 1 where a bound is not kept. On a busy machine a sample may stand still for
others' sake in task mode (it is preemptible): --busy does not judge those, and takes the walk time's share of elapsed time.

usage: run.py [--brink build/brink] [--program NAME] [--busy] [--only budget,bucket,collector] [--json FILE]
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from report_numbers import numbers  # noqa: E402

PYTHON = ("import json\nd={str(i):list(range(i%17)) for i in range(20000)}\n"
          "for _ in range(@N@): json.loads(json.dumps(d)); sorted(d, key=lambda k: k[::-1])")
PERL = ("for my $turn (1..@N@) { my %h; for my $i (1..1000000) { $h{($i*7919)%65537} .= chr(65+$i%26); } my $n=0;"
        " for (keys %h) { $n += tr/A// if /AB|[K-P]+Q/ } print $n }")
# For the bounds of a walk, and for the collector.
PROGRAMS = {
    "python3": [["/usr/bin/python3", "-c", PYTHON.replace("@N@", turns)] for turns in ("40", "320")],
    "perl": [["perl", "-e", PERL.replace("@N@", turns)] for turns in ("3", "40")],
}
SHARE, BURST_S = 0.7, 0.00175  # per cent, and what may be used up at once: the defaults at this rate


def map_bytes(pid):
    """Memory of the BPF maps that a process holds, each counted once."""
    sizes = {}
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if "bpf-map" not in os.readlink(f"/proc/{pid}/fd/{fd}"):
                continue
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
                words = dict(line.split(":", 1) for line in file if ":" in line)
            sizes[words.get("map_id", fd)] = int(words.get("memlock", 0))
    except OSError:
        return 0
    return sum(sizes.values())


class Watched:
    """A recording with the recorder's memory, sampled while it runs."""

    def __init__(self, brink, options, program, folder):
        self.report = os.path.join(folder, "report.json")
        self.resident = self.maps = 0
        before = os.times()
        argv = [brink, "record", "--source", "walk", *options, f"--json={self.report}", "-o", os.path.join(folder, "data"), "--", *program]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
            while child.poll() is None:
                try:
                    with open(f"/proc/{child.pid}/status", encoding="ascii") as file:
                        text = file.read()
                    for what in ("RssAnon", "RssShmem", "RssFile"):
                        found = re.search(what + r":\s*(\d+)", text)
                        setattr(self, what, max(getattr(self, what, 0), int(found.group(1)) * 1024 if found else 0))
                except OSError:
                    pass
                self.maps = max(self.maps, map_bytes(child.pid))
                time.sleep(0.1)
            self.text = child.stderr.read()
            if child.returncode != 0:
                sys.exit(f"{argv}: status {child.returncode}: {self.text[-800:]}")
        self.elapsed = os.times().elapsed - before.elapsed
        with open(self.report, encoding="utf-8") as file:
            self.values = numbers(json.load(file))
        found = re.search(r"brink itself: .*?([0-9.]+) % of one CPU", self.text)
        self.cpu_percent = float(found.group(1)) if found else 0
        found = re.search(r"in ([0-9.]+) (ms|s|min) of CPU time", self.text)
        self.target_seconds = float(found.group(1)) * {"ms": 1e-3, "s": 1, "min": 60}[found.group(2)] if found else 0

    @property
    def samples(self):
        return sum(v for k, v in self.values.items() if k.startswith("walk_stop_"))


def budget(args, folder, program):
    failed, rows = False, []
    print("| mode | budget | samples | longer than it | longest | histogram: up to us: samples |\n|---|---|---|---|---|---|")
    for mode, limits in (("irq", ("20us", "50us", "100us")), ("task", ("100us", "500us", "2ms"))):
        for limit in limits:
            depth = "128" if mode == "irq" else "512"
            seen = Watched(args.brink, ["--walk-mode", mode, "--walk-budget", limit, "--depth", depth, "-F", "500", "--walk-share", "0"], program, folder)
            steps = sorted((int(k.split("_")[3]), int(v)) for k, v in seen.values.items() if k.startswith("walk_samples_below_"))
            over = int(seen.values["walk_over_budget"])
            text = " ".join(f"{ns / 1000:.0f}:{n}" for ns, n in steps)
            print(f"| {mode} | {limit} | {seen.samples:.0f} | {over} | {seen.values['walk_longest_ns'] / 1000:.1f} us | {text} |", flush=True)
            rows.append({"mode": mode, "budget": limit, "samples": seen.samples, "over": over, "longest_ns": seen.values["walk_longest_ns"], "histogram": steps})
            failed |= over > 0 and not args.busy
    return failed, rows


def bucket(args, folder, program):
    failed, rows = False, []
    print("\n| mode | samples | walk time | throttled |\n|---|---|---|---|")
    for mode in ("irq", "task"):
        seen = Watched(args.brink, ["--walk-mode", mode, "-F", "50000"], program, folder)
        walked = seen.values["walk_sample_ns"] * seen.samples / 1e9
        # The burst of each CPU may come on top.
        # The share is one of a CPU's time; on a busy machine the target has only a part of that.
        seconds = seen.elapsed if args.busy else seen.target_seconds
        share, allowed = 100 * walked / seconds, SHARE + 100 * BURST_S * os.cpu_count() / seconds
        throttled = next((v for k, v in seen.values.items() if "throttled" in k), 0)
        print(f"| {mode} | {seen.samples:.0f} | {share:.2f} % (allowed {allowed:.2f}) | {throttled:.0f} |", flush=True)
        rows.append({"mode": mode, "samples": seen.samples, "share_percent": share, "allowed_percent": allowed, "throttled": throttled})
        failed |= share > allowed
    return failed, rows


def collector(args, folder, program):
    seen = Watched(args.brink, ["-F", "1000"], program, folder)
    own, mapped = seen.RssAnon, seen.maps
    print(f"\ncollector: {seen.cpu_percent:.2f} % of one CPU; memory {own / 2**20:.1f} MiB of its own and {mapped / 2**20:.1f} MiB of BPF maps, "
          f"{(own + mapped) / 2**20:.1f} MiB together (without program text and shared libraries: {seen.RssFile / 2**20:.1f} MiB resident)", flush=True)
    row = {"cpu_percent": seen.cpu_percent, "own_bytes": own, "map_bytes": mapped}
    return seen.cpu_percent > 3 or own + mapped > 64 * 2**20, row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--program", default="python3", choices=PROGRAMS)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--only", default="budget,bucket,collector")
    parser.add_argument("--json")
    args = parser.parse_args()
    result, failed = {}, False
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            broken, result[name] = {"budget": budget, "bucket": bucket, "collector": collector}[name](args, folder, PROGRAMS[args.program][name == "collector"])
            failed |= broken
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
