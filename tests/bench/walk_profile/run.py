#!/usr/bin/python3
"""Where the time of a walk goes, in nanoseconds a step: walks in task mode, which can be interrupted, are sampled by perf (cpu-clock,
kernel, with call chains), and each sample that hit a walk is counted for the walker's function that it hit, or that called what
it hit. The shares are then laid on what a step costs in runs without perf. The functions are the same in interrupt mode.

usage: run.py [--brink build/brink] [--programs LIST] [--rate HZ] [--profile HZ] [--seconds S] [--scale X] [--record OPTIONS] [--functions] [--json FILE]

--functions: a line for each function besides.
"""
import argparse
import bisect
import collections
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "walk_reach"))
import run as reach  # noqa: E402

# Phase -> the walker's functions; what is in none of them executes an instruction.
PHASES = {
    "entry: registers, process, slot": r"walk_(task_ready|task_attempt|task_work|task_sample|begin|take_\w+|forget\w*|first_\w+)$",
    "code compared": r"walk_(check_line|check_next|check_tail|enter_line)$",
    "code looked up": r"walk_(translate|by_content)$",
    "memory": r"walk_(fill|load|store|code_written|line_\w+)$",
    "mappings": r"walk_(may_other|find_mapping)$",
    "clock": r"walk_clock$",
    "result: branches, ring": r"walk_(task_end|task_save|give|task_finish)$",
    "misses, waits": r"walk_(fill_miss|send_miss|lift_in|fault_in|assist_\w+|yield_\w+)$",
}
EXECUTION = "execution: micro-ops, registers, flags"


def phase(function):
    return next((name for name, pattern in PHASES.items() if re.match(pattern, function)), EXECUTION)


def walk_command(args, command, folder):
    return [args.brink, "record", "--source", "walk", "--walk-mode", "task", "--walk-share", "0", *shlex.split(args.record), "-F", args.rate,
            f"--json={folder}/report.json", "-o", f"{folder}/b.data", "--", *command]


def run(argv):
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(argv)}: status {done.returncode}: {done.stderr.decode(errors='replace')[-800:]}")


def figures(folder):
    with open(f"{folder}/report.json", encoding="utf-8") as file:
        return reach.numbers(json.load(file))


class Symbols:
    """The kernel's, the walker's among them, as they were while it was there. (perf's own naming of BPF programs aborts now and then.)"""

    def __init__(self):
        with open("/proc/kallsyms", encoding="ascii") as file:
            rows = sorted((int(words[0], 16), words[2]) for words in (line.split() for line in file) if words[1] in "tTwW")
        self.starts, self.names = [row[0] for row in rows], [row[1] for row in rows]

    def at(self, address):
        place = bisect.bisect_right(self.starts, address) - 1
        return self.names[place] if place >= 0 and address >> 63 else "?"

    def walker(self):
        return any(name.endswith("_walk_task_step") for name in self.names)


def sampled(folder, symbols):
    """(function of the walker, what of the kernel it called) -> samples."""
    text = subprocess.run(["perf", "script", "-i", f"{folder}/p.data", "-F", "ip"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    counts = collections.Counter()
    for chain in text.split("\n\n"):
        names = [symbols.at(int(word, 16)) for word in chain.split()]
        bpf = [re.sub(r"^bpf_prog_[0-9a-f]+_", "", name) for name in names if name.startswith("bpf_prog_")]
        if not any(name.startswith("walk_") for name in bpf):
            continue
        above = next(place for place, name in enumerate(names) if name.startswith("bpf_prog_"))
        # An interrupt that came in between is nobody's.
        if not any("sysvec" in name for name in names[:above]):
            counts[bpf[0], names[0] if above else ""] += 1
    return counts


def watched(args, command, folder):
    """One recording; once its walker is in the kernel and its program runs, perf looks at that. The kernel's symbols of that time."""
    with subprocess.Popen(walk_command(args, command, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recorder:
        def children():
            with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="ascii") as file:
                return file.read().split()

        symbols = Symbols()
        while recorder.poll() is None and not (children() and symbols.walker()):
            time.sleep(0.05)
            symbols = Symbols()
        if recorder.poll() is not None:
            sys.exit(f"{shlex.join(command)} ended before it could be looked at")
        run(["perf", "record", "-q", "-B", "-N", "-e", "cpu-clock:k", "-F", args.profile, "-g", "-o", f"{folder}/p.data", "-p", children()[0], "--",
             "sleep", args.seconds])
        recorder.wait()
    return symbols


def profile(args, program, command, folder):
    run(walk_command(args, command, folder))
    step_ns = figures(folder)["walk_step_ns"]
    counts = sampled(folder, watched(args, command, folder))
    total = sum(counts.values())
    if not total:
        sys.exit(f"{program}: no sample hit a walk")
    rows = collections.defaultdict(lambda: [0, 0])
    for (function, called), count in counts.items():
        rows[phase(function)][0] += count
        rows[phase(function)][1] += count if called else 0
    print(f"{program}: {step_ns:.1f} ns a step; {total} samples in walks", flush=True)
    table = {}
    for name, (count, called) in sorted(rows.items(), key=lambda row: -row[1][0]):
        table[name] = {"ns_a_step": step_ns * count / total, "of_it_in_the_kernel": step_ns * called / total}
        print(f"  {step_ns * count / total:6.1f} ns {100 * count / total:5.1f} %  {name}" + (f" ({step_ns * called / total:.1f} ns in the kernel's functions)" if called else ""))
    if args.functions:
        functions = collections.Counter()
        for (function, _), count in counts.items():
            functions[function] += count
        for function, count in functions.most_common(24):
            print(f"    {step_ns * count / total:6.1f} ns {function}")
    return {"step_ns": step_ns, "samples": total, "phases": table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--programs", default="python3,gzip,xz,perl,cc1")
    parser.add_argument("--rate", default="2000")
    parser.add_argument("--profile", default="20000")
    parser.add_argument("--seconds", default="3", help="how long perf looks (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--record", default="--depth 32 --walk-wait 0")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        names = reach.inputs(folder, args.scale)
        for program in args.programs.split(","):
            command = reach.PROGRAMS[program][0]
            for key, value in names.items():
                command = [word.replace(key, value) for word in command]
            table[program] = profile(args, program, command, folder)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
