#!/usr/bin/python3
"""What a brink profile is worth to an optimiser: SQLite, end to end, in this machine.

Builds the SQLite amalgamation (from the npm package better-sqlite3) with clang-19 plain, with instrumented PGO and with
a sample profile that brink took of the plain build; times them alternately. Then takes BOLT's exact instrumentation
counts as the truth for the edges of brink's profile. Prints ratios only: the machine is noisy.

usage: run.py [--brink build/brink] [--work DIR] [--repeat N] [--record OPTIONS] [--runs N] [--skip-pgo|--skip-bolt]
"""
import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys

import fdata

HERE = os.path.dirname(os.path.abspath(__file__))
LLVM = "/usr/lib/llvm-19/bin"
CFLAGS = ["-O2", "-g1", "-fdebug-info-for-profiling", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"]


def sh(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, words))}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


class Bench:
    def __init__(self, args):
        self.args, self.work = args, os.path.abspath(args.work)
        os.makedirs(self.work, exist_ok=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def fetch(self):
        if not os.path.exists(self.path("package/deps/sqlite3/sqlite3.c")):
            sh("npm", "pack", "better-sqlite3@12", cwd=self.work)
            tarball = next(n for n in os.listdir(self.work) if n.startswith("better-sqlite3-") and n.endswith(".tgz"))
            sh("tar", "xzf", tarball, cwd=self.work)

    def build(self, name, *flags, linker=()):
        out = self.path(name)
        if os.path.exists(out) and not self.args.rebuild:
            return out
        source = self.path("package/deps/sqlite3")
        sh("clang-19", *CFLAGS, *flags, "-I" + source, os.path.join(HERE, "workload.c"), os.path.join(source, "sqlite3.c"),
           "-fuse-ld=lld-19", *linker, "-lm", "-o", out)
        return out

    def user_seconds(self, binary):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        sh(binary, self.args.rounds)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def record(self, binary, out):
        options = shlex.split(self.args.record)
        done = sh(self.args.brink, "record", *options, "-o", out, "--", "sh", "-c",
                  f"for i in $(seq {self.args.runs}); do {shlex.quote(binary)} {self.args.rounds}; done")
        return done.stderr

    def pgo(self, plain):
        instrumented = self.build("sqlite-instr", "-fprofile-instr-generate")
        sh(instrumented, self.args.rounds, env=dict(os.environ, LLVM_PROFILE_FILE=self.path("instr.raw")))
        sh(f"{LLVM}/llvm-profdata", "merge", "-o", self.path("instr.prof"), self.path("instr.raw"))
        best = self.build("sqlite-pgo", f"-fprofile-instr-use={self.path('instr.prof')}", "-Wno-profile-instr-unprofiled")
        self.record(plain, self.path("pgo.data"))
        sh(f"{LLVM}/llvm-profgen", f"--binary={plain}", f"--perfdata={self.path('pgo.data')}",
           f"--output={self.path('sample.prof')}", "--format=extbinary")
        if os.path.exists(self.path("sqlite-sample")):
            os.remove(self.path("sqlite-sample"))
        sample = self.build("sqlite-sample", f"-fprofile-sample-use={self.path('sample.prof')}", "-Wno-profile-instr-unprofiled")
        names = {"plain": plain, "instrumented": best, "brink": sample}
        outputs = {n: sh(b, self.args.rounds).stdout for n, b in names.items()}
        if len(set(outputs.values())) != 1:
            sys.exit(f"the builds disagree: {outputs}")
        times = {n: [] for n in names}
        for turn in range(self.args.repeat):
            for name in (list(names) if turn % 2 == 0 else list(names)[::-1]):
                times[name].append(self.user_seconds(names[name]))
        median = {n: statistics.median(t) for n, t in times.items()}
        gain = (median["plain"] - median["brink"]) / (median["plain"] - median["instrumented"])
        return {"user_seconds": median, "gain_of_instrumented": gain}

    def bolt(self):
        target = self.build("sqlite-relocs", linker=("-Wl,--emit-relocs",))
        sh(f"{LLVM}/llvm-bolt", target, "-instrument", "-o", self.path("sqlite-boltinstr"),
           f"--instrumentation-file={self.path('truth.fdata')}")
        sh(self.path("sqlite-boltinstr"), self.args.rounds)
        log = self.record(target, self.path("bolt.data"))
        done = sh(f"{LLVM}/perf2bolt", target, "-p", self.path("bolt.data"), "-o", self.path("brink.fdata"))
        truth, mine = fdata.load(self.path("truth.fdata")), fdata.load(self.path("brink.fdata"))
        result = {"perf2bolt": [l for l in (done.stdout + done.stderr).splitlines() if "PERF2BOLT" in l][-8:], "record": log.splitlines()[-12:]}
        result["overlap_binary"] = fdata.overlap(fdata.flat(truth, fdata.inside), fdata.flat(mine, fdata.inside))
        result["overlap_functions"] = fdata.overlap_within(fdata.flat(truth, fdata.inside), fdata.flat(mine, fdata.inside))
        result["probability_error"], result["branches_not_seen"] = fdata.probability_error(
            fdata.flat(truth, fdata.inside), fdata.flat(mine, fdata.inside))
        sh(f"{LLVM}/llvm-bolt", target, "-o", self.path("sqlite-bolted"), f"-data={self.path('brink.fdata')}",
           "-reorder-blocks=ext-tsp", "-reorder-functions=hfsort")
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--work", default="/tmp/brink-pgo")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--rounds", default="60")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--record", default="--source walk -F 99")
    parser.add_argument("--rebuild", action="store_true")
    parser.add_argument("--skip-pgo", action="store_true")
    parser.add_argument("--skip-bolt", action="store_true")
    bench = Bench(parser.parse_args())
    bench.fetch()
    result = {}
    if not bench.args.skip_pgo:
        result["pgo"] = bench.pgo(bench.build("sqlite-plain"))
    if not bench.args.skip_bolt:
        result["bolt"] = bench.bolt()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
