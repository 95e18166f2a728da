#!/usr/bin/python3
"""What the pipeline costs and carries. Three parts, each a comparison of things in one run:

 rate     replayed stacks of 32 through one ring into a file, paced at --rate and in one burst: losses, collector CPU and
          memory, for several buffer counts and sizes (the tables of docs/pipeline.md)
 cost     brink record (stacks of 32 replayed at each sample) against perf record -e cpu-clock at the same rate on the
          same program, in turn: collector CPU time, bytes a sample, losses, time of the program
 sum      the ratios

usage: run.py [--brink build/brink] [--count N] [--repeat N] [--hz HZ] [--folder DIR] [--json]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = ["/usr/bin/python3", "-c", "sum(i*i%7 for i in range(36000000))"]
POOLS = ((4, "256K"), (4, "1M"), (16, "256K"), (16, "1M"), (64, "1M"), (16, "4M"), (128, "1M"))


def timed(words):
    """Runs to the end: wall seconds, CPU seconds and peak KiB of the process and what it waited for."""
    begin = time.monotonic()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def rate(args, folder, per_second):
    rows = []
    for buffers, size in POOLS:
        data, report = os.path.join(folder, "rate.data"), os.path.join(folder, "rate.json")
        words = [args.brink, "record", "-q", "--json=" + report, "-o", data, "--buffers", str(buffers), "--buffer-size", size,
                 "-C", "0", "-F", "1", "-D", "-1", "--replay-count", str(args.count)]
        if per_second:
            words += ["--replay-rate", str(per_second)]
        _, _, peak = timed(words)
        with open(report, encoding="utf-8") as file:
            result = json.load(file)
        sent, seconds = result["samples_sent"], result["elapsed_ns"] / 1e9
        assert sent == result["samples_written"] + result["samples_lost"], result
        rows.append({"buffers": buffers, "buffer_size": size, "sent_per_s": sent / seconds, "lost_percent": 100 * result["samples_lost"] / sent,
                     "waiting_max": result["buffers_waiting_max"], "own_cpu_us_per_stack": result["own_cpu_ns"] / 1e3 / sent, "peak_mib": peak / 1024})
        os.unlink(data)
    return rows


def perf_run(args, data):
    """perf record once, without its search for build-ids at the end: it dies of that where another brink records at the same
    time (docs/pipeline.md), and does less so. Runs that die all the same are done again."""
    for _ in range(6):
        wall, cpu, peak = timed(["perf", "record", "-q", "-B", "-N", "-e", "cpu-clock", "-F", str(args.hz), "-o", data, "--"] + PROGRAM)
        script = subprocess.run([args.brink, "script", "-i", data, "-F", "ip"], capture_output=True, text=True, check=False)
        samples = script.stdout.count("\n")
        if script.returncode == 0 and samples:
            return {"wall": wall, "cpu": cpu, "samples": samples, "lost": 0, "bytes": os.path.getsize(data) / samples, "peak": peak / 1024}
    sys.exit("perf record gave nothing that can be read: " + script.stderr.strip()[:200])


def cost(args, folder):
    """The collector's CPU time is that of the whole run less the bare program's: the same rule for both collectors, and
    what the target pays for interrupts counts too."""
    bare, ours, perf = [], [], []
    for _ in range(args.repeat):
        wall, cpu, _ = timed(PROGRAM)
        bare.append({"wall": wall, "cpu": cpu})
        data, report = os.path.join(folder, "brink.data"), os.path.join(folder, "brink.json")
        wall, cpu, peak = timed([args.brink, "record", "-q", "--json=" + report, "--source", "replay", "-F", str(args.hz), "-o", data, "--"] + PROGRAM)
        with open(report, encoding="utf-8") as file:
            result = json.load(file)
        ours.append({"wall": wall, "cpu": cpu, "own_cpu": result["own_cpu_ns"] / 1e9, "samples": result["samples_written"], "lost": result["samples_lost"],
                     "bytes": os.path.getsize(data) / max(1, result["samples_written"]), "peak": peak / 1024})
        perf.append(perf_run(args, os.path.join(folder, "perf.data")))
    base = {key: statistics.median(row[key] for row in bare) for key in ("wall", "cpu")}

    def summary(rows):
        median = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        return {"slowdown_percent": 100 * (median["wall"] / base["wall"] - 1), "cpu_percent": 100 * (median["cpu"] / base["cpu"] - 1),
                "own_cpu_s": median.get("own_cpu"), "samples": median["samples"], "lost": sum(row["lost"] for row in rows),
                "bytes_per_sample": median["bytes"], "peak_mib": median["peak"]}

    return {"hz": args.hz, "program_s": base["wall"], "brink": summary(ours), "perf": summary(perf)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--hz", type=int, default=1000)
    parser.add_argument("--only-cost", action="store_true", help="the comparison with perf alone")
    parser.add_argument("--folder")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        result = {} if args.only_cost else {"rate": rate(args, folder, args.rate), "burst": rate(args, folder, 0)}
        result["cost"] = cost(args, folder)
    if args.json:
        print(json.dumps(result))
        return 0
    for name, text in () if args.only_cost else (("rate", f"paced at {args.rate} stacks/s"), ("burst", "as fast as the feeder goes")):
        print(f"{text}, {args.count} stacks of 32:")
        print("buffers  size     sent/s   lost %  waiting  us CPU/stack  peak MiB")
        for row in result[name]:
            print(f"{row['buffers']:7}  {row['buffer_size']:>4} {row['sent_per_s']:10.0f} {row['lost_percent']:8.2f} {row['waiting_max']:8}"
                  f" {row['own_cpu_us_per_stack']:13.2f} {row['peak_mib']:9.1f}")
    print(f"\nat {args.hz} Hz on {result['cost']['program_s']:.2f} s of python3 (medians of {args.repeat}); brink's samples carry 32 branches:")
    print("        samples  lost  bytes/sample  program slower by  all CPU time more by  peak MiB")
    for name in ("brink", "perf"):
        row = result["cost"][name]
        print(f"  {name:5} {row['samples']:7.0f} {row['lost']:5} {row['bytes_per_sample']:13.0f} {row['slowdown_percent']:16.1f} % {row['cpu_percent']:19.1f} %"
              f" {row['peak_mib']:9.1f}")
    print(f"  brink's own CPU time: {1000 * result['cost']['brink']['own_cpu_s']:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
