#!/usr/bin/python3
"""What walking costs the target, in its own CPU time: interleaved runs of real programs, bare, under perf record -e
cpu-clock and under brink record --source walk at the same rate. Prints the slowdown in per cent of the lower quartiles of the runs
(what disturbs a run only lengthens it), brink's distance to perf in points with a 95 % interval (bootstrap over the turns), and
brink's own statistics. --record may be given several times: each set of options is a way of its own.

usage: run.py [--brink build/brink] [--rate HZ] [--repeat N] [--record OPTIONS]... [--programs LIST] [--json]
"""
import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile

PROGRAMS = {
    "python3": ["/usr/bin/python3", "-c", "import json\nd={str(i):list(range(i%17)) for i in range(20000)}\n"
                "for _ in range(60): json.loads(json.dumps(d)); sorted(d, key=lambda k: k[::-1])"],
    "gzip": ["sh", "-c", "gzip -9 -c @INPUT@ @INPUT@ > /dev/null"],
    "xz": ["sh", "-c", "xz -3 -c @INPUT@ @INPUT@ @INPUT@ > /dev/null"],
    "perl": ["perl", "-e", "my %h; for my $i (1..12000000) { $h{($i*7919)%65537} .= chr(65+$i%26); } my $n=0;"
             " for (keys %h) { $n += tr/A// if /AB|[K-P]+Q/ } print $n"],
    "sort": ["sh", "-c", "LC_ALL=C sort -S 512M @TEXT@ @TEXT@ @TEXT@ @TEXT@ @TEXT@ @TEXT@ @TEXT@ @TEXT@ > /dev/null"],
    "cc1": ["gcc", "-O2", "-c", "@SOURCE@", "-o", "/dev/null"],
}


def inputs(folder):
    """Files made from a fixed generator: words of a small grammar, and C code of many small functions."""
    seed, lines = 12345, []
    for _ in range(60000):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        lines.append(f"{seed % 99991} record {'abcdefghij'[seed % 10] * (seed % 13)} {seed >> 7} value-{seed % 613}")
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="ascii") as file:
        file.write("\n".join(lines * 2) + "\n")
    source = os.path.join(folder, "code.c")
    with open(source, "w", encoding="ascii") as file:
        for i in range(900):
            file.write(f"int f{i}(int a, int *p) {{ int s = {i}; for (int i = 0; i < a; i++) {{ if (p[i] > s) s += p[i] * {i % 7 + 1};"
                       f" else s ^= p[i] >> {i % 5}; switch (s & 3) {{ case 0: s++; break; case 1: s -= {i}; }} }} return s; }}\n")
    return {"@INPUT@": text, "@TEXT@": text, "@SOURCE@": source}


def command_of(program, names):
    """A program's words with the names of its inputs in them."""
    command = PROGRAMS[program]
    for key, value in names.items():
        command = [word.replace(key, value) for word in command]
    return command


def timed(command, times):
    """The command inside a shell that notes the CPU seconds it used: what the recorder needs to start and to end (up to
    a second for perf) is not the target's slowdown, and CPU time does not move with the load of other programs."""
    return ["bash", "-c", f'TIMEFORMAT="%U %S"; exec 3>&2; {{ time "$@" 2>&3; }} 2> {shlex.quote(times)}', "timed"] + command


def run(argv, times):
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(argv)}: status {done.returncode}: {done.stderr.decode(errors='replace')[-800:]}")
    with open(times, encoding="ascii") as file:
        return sum(float(word) for word in file.read().split()), done.stderr.decode(errors="replace")


def quartile(values):
    """The lower one: between the two runs around it."""
    return statistics.quantiles(values, n=4, method="inclusive")[0] if len(values) > 1 else values[0]


def distance(times, way, turns):
    """Points of slowdown between a way and perf, from these turns."""
    at = {name: quartile([times[name][turn] for turn in turns]) for name in ("bare", "perf", way)}
    return 100 * (at[way] - at["perf"]) / at["bare"]


def interval(times, way):
    turns, chance = range(len(times["bare"])), random.Random(1)
    drawn = sorted(distance(times, way, chance.choices(turns, k=len(turns))) for _ in range(1000))
    return drawn[25], drawn[974]


def judge(program, times, logs, print_it):
    bare = quartile(times["bare"])
    rows = {"bare_s": round(bare, 3)}
    if print_it:
        print(f"{program}: bare {bare:.3f} s, perf +{100 * (quartile(times['perf']) / bare - 1):.2f} %", flush=True)
    for way in list(times)[1:]:
        row = {"slowdown_percent": round(100 * (quartile(times[way]) / bare - 1), 2)}
        if way != "perf":
            low, high = interval(times, way)
            row["above_perf_points"], row["interval"] = round(distance(times, way, range(len(times["bare"]))), 2), [round(low, 2), round(high, 2)]
            row["statistics"] = [line.strip() for line in logs[way].splitlines() if "walk" in line or "brink itself" in line]
            if print_it:
                print(f"  {way}: +{row['slowdown_percent']:.2f} %, above perf {row['above_perf_points']:+.2f} points [{low:+.2f}, {high:+.2f}]")
                print("".join(f"    {line}\n" for line in row["statistics"]), end="", flush=True)
        rows[way] = row
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--rate", default="1000")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--record", action="append")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        names = inputs(folder)
        for program in args.programs.split(","):
            command = timed(command_of(program, names), f"{folder}/times")
            ways = {
                "bare": command,
                "perf": ["perf", "record", "-q", "-B", "-N", "-e", "cpu-clock", "-F", args.rate, "-o", f"{folder}/p.data", "--"] + command,
            }
            for options in args.record or [""]:
                ways[f"brink {options}".strip()] = [args.brink, "record", "--source", "walk", *shlex.split(options), "-F", args.rate, "-o",
                                                    f"{folder}/b.data", "--"] + command
            times, logs = {name: [] for name in ways}, {}
            for turn in range(args.repeat):
                for name in (list(ways) if turn % 2 == 0 else list(ways)[::-1]):
                    seconds, logs[name] = run(ways[name], f"{folder}/times")
                    times[name].append(seconds)
            table[program] = judge(program, times, logs, not args.json)
    if args.json:
        print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
