#!/usr/bin/python3
"""What walks that end early do to a profile, by the reason why they end.

Records the SQLite build of tests/bench/pgo_sqlite and takes BOLT's exact instrumentation counts of the same work as the truth.
A function is put down to the reason for which most of the early ends in it happened; for each reason: its share of the samples,
what part of the true counts lies in its functions, and what part of the recorded branches does. Above 1 in the last column the
profile sees more of that code than there is, below 1 less. `time` is the same for the places where samples hit: sampling
weighs slow code more, and that is no matter of how walks end.

usage: run.py [--brink build/brink] [--work DIR] [--rate HZ] [--depth N] [--runs N] [--record OPTIONS] [--json FILE]
"""
import argparse
import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pgo_sqlite"))
import fdata  # noqa: E402
import run as pgo  # noqa: E402


def truth_of(bench, args, target):
    """function -> taken branches that begin in it, exactly counted."""
    path = bench.path("truth.fdata")
    if not os.path.exists(path):
        pgo.sh(f"{pgo.LLVM}/llvm-bolt", target, "-instrument", "-o", bench.path("sqlite-boltinstr"), f"--instrumentation-file={path}")
        pgo.sh(bench.path("sqlite-boltinstr"), args.rounds)
    counts = collections.Counter()
    for (source, _), n in fdata.flat(fdata.load(path), fdata.inside).items():
        counts[source[0].split("/")[0]] += n
    return counts


def recorded(brink, data, known):
    """Of the functions in `known`: samples that hit, branches within, early ends by reason. And all samples by reason."""
    hits, seen, ends, stops = collections.Counter(), collections.Counter(), collections.defaultdict(collections.Counter), collections.Counter()
    with subprocess.Popen([brink, "script", "-i", data, "--format", "json"], stdout=subprocess.PIPE, text=True) as script:
        for line in script.stdout:
            sample = json.loads(line)
            stop, branches = sample.get("stop"), sample["branches"]
            if not stop:
                continue
            stops[stop] += 1
            hits[sample["symbol"]] += 1
            for branch in branches:
                if branch["from_symbol"] == branch["to_symbol"] and branch["kind"] in ("cond", "jump", "ind_jump") and branch["from_symbol"] in known:
                    seen[branch["from_symbol"]] += 1
            if stop != "full":
                ends[branches[0]["to_symbol"] if branches else sample["symbol"]][stop] += 1
    return hits, seen, ends, stops


def share(counter, names):
    return sum(counter[n] for n in names) / (sum(counter.values()) or 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--work", default="/tmp/brink-pgo")
    parser.add_argument("--rate", default="500")
    parser.add_argument("--depth", default="32")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--rounds", default="60")
    parser.add_argument("--record", default="", help="more options for brink record")
    parser.add_argument("--rebuild", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.record = f"--source walk --depth {args.depth} -F {args.rate} {args.record}"
    bench = pgo.Bench(args)
    bench.fetch()
    target = bench.build("sqlite-relocs", linker=("-Wl,--emit-relocs",))
    truth = truth_of(bench, args, target)
    bench.record(target, bench.path("bias.data"))
    hits, seen, ends, stops = recorded(args.brink, bench.path("bias.data"), truth)
    hits = collections.Counter({name: n for name, n in hits.items() if name in truth})
    samples = sum(stops.values()) or 1
    by_reason = collections.defaultdict(list)
    for name in truth:
        by_reason[ends[name].most_common(1)[0][0] if ends.get(name) else "none ends here"].append(name)
    print("| ends | samples | ends outside the binary | true branches | recorded | recorded / true | time / true |\n|---|---|---|---|---|---|---|")
    rows = []
    for reason, names in sorted(by_reason.items(), key=lambda item: -stops[item[0]]):
        total = sum(e[reason] for e in ends.values())
        outside = sum(e[reason] for name, e in ends.items() if name not in truth)
        row = {"reason": reason, "samples": stops[reason] / samples, "outside": outside / total if total else 0, "true": share(truth, names),
               "recorded": share(seen, names), "time": share(hits, names)}
        rows.append(row)
        ratio = [row[k] / row["true"] if row["true"] else 0 for k in ("recorded", "time")]
        print(f"| {reason} | {100 * row['samples']:.1f} % | {100 * row['outside']:.0f} % | {100 * row['true']:.1f} % | {100 * row['recorded']:.1f} % | "
              f"{ratio[0]:.2f} | {ratio[1]:.2f} |")
    print(f"{samples} samples, {100 * stops['full'] / samples:.1f} % full")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"samples": samples, "stops": stops, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
