#!/usr/bin/python3
"""Where the time of a walk goes, in nanoseconds a step: walks in task mode, which can be interrupted, are sampled by perf (cpu-clock,
kernel, with call chains), and each sample that hit a walk is counted for the walker's function that it hit, or that called what
it hit. The shares are then laid on what a step costs in runs without perf. The functions are the same in interrupt mode.

usage: run.py [--brink build/brink] [--programs LIST] [--rate HZ] [--profile HZ] [--seconds S] [--scale X] [--record OPTIONS] [--functions] [--json FILE]

--functions: a line for each function besides.
"""
import argparse
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


def sampled(folder):
    """(function of the walker, what of the kernel it called) -> samples."""
    text = subprocess.run(["perf", "script", "-i", f"{folder}/p.data", "-F", "ip,sym"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    counts = collections.Counter()
    for chain in text.split("\n\n"):
        symbols = [line.split(None, 1)[1].strip() for line in chain.splitlines() if len(line.split(None, 1)) > 1]
        bpf = [re.sub(r"^bpf_prog_[0-9a-f]+_", "", symbol) for symbol in symbols if symbol.startswith("bpf_prog_")]
        # An interrupt that came in between is nobody's.
        if not any(name.startswith("walk_") for name in bpf) or any("sysvec" in symbol for symbol in symbols[:symbols.index(next(s for s in symbols if s.startswith("bpf_prog_")))]):
            continue
        counts[bpf[0], "" if symbols[0].startswith("bpf_prog_") else symbols[0]] += 1
    return counts


def kernel_symbols():
    with open("/proc/kallsyms", encoding="ascii") as file:
        return file.read()


def watched(args, command, folder):
    """One recording; once its walker is in the kernel and its program runs, perf looks at that. (perf cannot read a file of its own
    that saw programs being unloaded.)"""
    with subprocess.Popen(walk_command(args, command, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recorder:
        def children():
            with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="ascii") as file:
                return file.read().split()

        while recorder.poll() is None and not (children() and "_walk_task_step" in kernel_symbols()):
            time.sleep(0.05)
        if recorder.poll() is not None:
            sys.exit(f"{shlex.join(command)} ended before it could be looked at")
        run(["perf", "record", "-q", "-B", "-N", "-e", "cpu-clock:k", "-F", args.profile, "-g", "-o", f"{folder}/p.data", "-p", children()[0], "--",
             "sleep", args.seconds])
        recorder.wait()


def profile(args, program, command, folder):
    run(walk_command(args, command, folder))
    step_ns = figures(folder)["walk_step_ns"]
    watched(args, command, folder)
    counts = sampled(folder)
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
