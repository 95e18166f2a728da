#!/usr/bin/python3
"""Depth against frequency at equal overhead: which of many short or few long walks tells more about a program.

Records the SQLite build of tests/bench/pgo_sqlite at each depth, with the frequency at which samples and walks take the
same share of the CPU (`--share`): a first recording tells what a walk of that depth takes, and a bare sample is counted
with `--sample-us`. Compares the edges with BOLT's exact instrumentation counts of the same run. With --pgo also builds with
each profile and times the builds alternately. Prints a table in the form of docs/walk.md.

usage: run.py [--brink build/brink] [--work DIR] [--depths LIST] [--share PERCENT] [--runs N] [--pgo LIST] [--json FILE]
"""
import argparse
import importlib.util
import json
import os
import shlex
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PGO = os.path.join(os.path.dirname(HERE), "pgo_sqlite")
sys.path[:0] = [PGO, os.path.dirname(HERE)]
import fdata  # noqa: E402
from report_numbers import numbers  # noqa: E402


def load_bench():
    spec = importlib.util.spec_from_file_location("pgo_sqlite", os.path.join(PGO, "run.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(pgo, args, binary, depth, rate, runs, out):
    report = out + ".json"
    command = f"for i in $(seq {runs}); do {shlex.quote(binary)} {args.rounds}; done"
    pgo.sh(args.brink, "record", "--source", "walk", "--walk-share", "2", *shlex.split(args.record), "--depth", depth, "-F", rate, f"--json={report}", "-o", out, "--", "sh", "-c",
           command)
    with open(report, encoding="utf-8") as file:
        return numbers(json.load(file))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--work", default="/tmp/brink-pgo")
    parser.add_argument("--depths", default="16,32,64,128,256,512,1024,2048")
    parser.add_argument("--share", type=float, default=1.0, help="per cent of the CPU (default %(default)s)")
    parser.add_argument("--sample-us", type=float, default=14.0, help="a sample without a walk (default %(default)s)")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", default="60")
    parser.add_argument("--record", default="", help="more options for brink record")
    parser.add_argument("--pgo", default="", help="depths to build and time, as 32,128")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--rebuild", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    pgo = load_bench()
    bench = pgo.Bench(args)
    bench.fetch()
    target = bench.build("sqlite-relocs", linker=("-Wl,--emit-relocs",))
    if not os.path.exists(bench.path("truth.fdata")):
        pgo.sh(f"{pgo.LLVM}/llvm-bolt", target, "-instrument", "-o", bench.path("sqlite-boltinstr"),
               f"--instrumentation-file={bench.path('truth.fdata')}")
        pgo.sh(bench.path("sqlite-boltinstr"), args.rounds)
    truth = fdata.flat(fdata.load(bench.path("truth.fdata")), fdata.inside)
    timed, rows = [int(d) for d in args.pgo.split(",") if d], []
    print("| depth | samples/s | walk, us | branches/s | within functions | probability error | whole binary |\n|---|---|---|---|---|---|---|", flush=True)
    for depth in (int(d) for d in args.depths.split(",")):
        first = record(pgo, args, target, depth, 200, 2, bench.path("depth.data"))
        walk_us = first["walk_sample_ns"] / 1000
        rate = max(10, round(args.share / 100 * 1e6 / (args.sample_us + walk_us)))
        out = bench.path(f"depth-{depth}.data")
        seen = record(pgo, args, target, depth, rate, args.runs, out)
        pgo.sh(f"{pgo.LLVM}/perf2bolt", target, "-p", out, "-o", bench.path("depth.fdata"))
        mine = fdata.flat(fdata.load(bench.path("depth.fdata")), fdata.inside)
        samples = sum(v for k, v in seen.items() if k.startswith("walk_stop_"))
        row = {"depth": depth, "rate": rate, "walk_us": seen["walk_sample_ns"] / 1000, "samples": samples,
               "branches_per_second": seen["walk_mean_depth"] * seen["walk_stacks"] / max(1, samples) * rate,
               "within_functions": fdata.overlap_within(truth, mine), "probability_error": fdata.probability_error(truth, mine)[0],
               "whole_binary": fdata.overlap(truth, mine)}
        rows.append(row)
        print(f"| {depth} | {rate} | {row['walk_us']:.1f} | {row['branches_per_second']:.0f} | {row['within_functions']:.3f} | "
              f"{row['probability_error']:.3f} | {row['whole_binary']:.3f} |", flush=True)
    result = {"rows": rows}
    if timed:
        result["pgo_gain"] = gains(pgo, bench, args, target, rows, timed)
        for depth, gain in result["pgo_gain"].items():
            print(f"depth {depth}: {100 * gain:.1f} % of what instrumented PGO gains")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


def gains(pgo, bench, args, plain, rows, depths):
    """Share of instrumented PGO's gain that each depth's profile brings, timed alternately."""
    instrumented = bench.build("sqlite-instr", "-fprofile-instr-generate")
    pgo.sh(instrumented, args.rounds, env=dict(os.environ, LLVM_PROFILE_FILE=bench.path("instr.raw")))
    pgo.sh(f"{pgo.LLVM}/llvm-profdata", "merge", "-o", bench.path("instr.prof"), bench.path("instr.raw"))
    names = {"plain": bench.build("sqlite-plain"),
             "instrumented": bench.build("sqlite-pgo", f"-fprofile-instr-use={bench.path('instr.prof')}", "-Wno-profile-instr-unprofiled")}
    for depth in depths:
        if depth not in [row["depth"] for row in rows]:
            sys.exit(f"--pgo {depth}: not among --depths")
        profile = bench.path(f"depth-{depth}.prof")
        pgo.sh(f"{pgo.LLVM}/llvm-profgen", f"--binary={plain}", f"--perfdata={bench.path(f'depth-{depth}.data')}", f"--output={profile}", "--format=extbinary")
        name = f"sqlite-depth-{depth}"
        if os.path.exists(bench.path(name)):
            os.remove(bench.path(name))
        names[str(depth)] = bench.build(name, f"-fprofile-sample-use={profile}", "-Wno-profile-instr-unprofiled")
    times = {name: [] for name in names}
    for turn in range(args.repeat):
        for name in list(names) if turn % 2 == 0 else list(names)[::-1]:
            times[name].append(bench.user_seconds(names[name]))
    best = {name: statistics.median(t) for name, t in times.items()}
    whole = best["plain"] - best["instrumented"]
    return {name: (best["plain"] - t) / whole for name, t in best.items() if name not in ("plain", "instrumented")}


if __name__ == "__main__":
    main()
