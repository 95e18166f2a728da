#!/usr/bin/python3
"""What brink cfi costs loads that make many system calls, in interleaved rounds of one run.

Rows: attached (the hooks, nothing selected), sensitive and all (both for every process of the machine, -a), and a bpftrace
script that counts system calls by program, for comparison. Loads: find, tar, git, redis (redis-benchmark) and nginx (wrk) where they are installed.
Figures are time by the clock and CPU time of the load relative to the same load without anything right before and behind it
(medians of a few pieces of about a second each), their median over the rounds with its 95 % interval (bootstrap), and the CPU
time of the monitor beside it. On a machine that is not idle only the CPU time says something.

usage: run.py [--brink build/brink] [--rounds N] [--pieces N] [--loads find,tar,git,redis,nginx] [--rows ...] [--small] [--check] [--json]
--small: shorter loads, to see that all of it works; the figures then say little.
--check: exit status 1 where the median of a row is above its bar (sensitive 3 %, all 10 %, policies 3 us).
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from armed import Armed  # noqa: E402
from interval import interval  # noqa: E402

BARS = {"sensitive": 3.0, "all": 10.0}
NAMES = {"attached": "attached, nothing selected", "sensitive": "sensitive", "all": "all", "bpftrace": "a bpftrace script"}
LONGEST = 120  # seconds that one run of a load may take
SCRIPT = "tracepoint:raw_syscalls:sys_enter { @[comm, args->id] = count(); }"


class Watcher(Armed):
    """A monitor in the background, gone at the end of the block; its report then tells counts."""

    def __init__(self, argv, ready, report=None):
        super().__init__(argv, ready)
        self.report = report

    def counts(self):
        with open(self.report, encoding="utf-8") as file:
            return json.load(file)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Redis:
    def __init__(self, work, small):
        self.port, self.requests = free_port(), "4000" if small else "40000"
        binary = shutil.which("redis-server") or shutil.which("redis-check-rdb")  # one file, which goes by its name
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", work], executable=binary, stdout=subprocess.DEVNULL)

    def run(self):
        subprocess.run(["redis-benchmark", "-p", str(self.port), "-q", "-c", "20", "-n", self.requests, "-t", "get,set"], stdout=subprocess.DEVNULL, check=True, timeout=LONGEST)

    def end(self):
        self.process.terminate()
        self.process.wait()


class Nginx:
    """One process that serves a small file; wrk says how many requests it answered."""

    def __init__(self, work, small):
        self.port, self.seconds, folder = free_port(), "1s", pathlib.Path(work) / "nginx"
        folder.mkdir()
        (folder / "index.html").write_text("x" * 600)
        (folder / "conf").write_text(f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors; events {{ worker_connections 256; }}\n"
                                     f"http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n"
                                     f"server {{ listen 127.0.0.1:{self.port}; root {folder}; }} }}\n")
        self.process = subprocess.Popen(["nginx", "-c", folder / "conf", "-e", folder / "errors"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self):
        out = subprocess.run(["wrk", "-t1", "-c20", f"-d{self.seconds}", f"http://127.0.0.1:{self.port}/"], stdout=subprocess.PIPE, text=True, check=True, timeout=LONGEST).stdout
        rate = float(next(line for line in out.splitlines() if line.startswith("Requests/sec")).split()[1])
        return 1 / rate  # seconds a request

    def end(self):
        self.process.terminate()
        self.process.wait()


def wait_for(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nobody answers at port {port}")


def shell(text):
    return lambda: subprocess.run(["sh", "-c", text], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=LONGEST)


def loads(work, wanted, small):
    out, ends, servers = {}, [], {}
    if "find" in wanted:
        out["find"] = shell("find /usr/share/doc -type f -size +1k -printf '%s %p\\n'" if small else "find /usr/share/doc /usr/include /usr/lib/python3* -type f -size +1k -printf '%s %p\\n'; find /usr/include -name '*.h' -exec cat {} +")
    if "tar" in wanted:
        out["tar"] = shell("tar cf - /usr/share/perl | cat | tar tf -" if small else "tar cf - /usr/include /usr/share/doc /usr/share/perl | cat | tar tf -")
    if "git" in wanted and shutil.which("git"):
        shell(f"cd {work} && git init -q r && cd r && for i in $(seq {10 if small else 60}); do for k in 1 2 3 4 5 6 7 8; do echo $i $k >>f$k; done; git add . && git -c user.name=a -c user.email=b commit -qm $i; done")()
        out["git"] = shell(f"cd {work}/r && for i in $(seq {1 if small else 12}); do git status; git log --stat -20; git diff HEAD~9; git cat-file --batch-all-objects --batch-check; done")
    redis = shutil.which("redis-benchmark") and (shutil.which("redis-server") or shutil.which("redis-check-rdb"))
    for name, make, there in (("redis", Redis, redis), ("nginx", Nginx, shutil.which("nginx") and shutil.which("wrk"))):
        if name not in wanted or not there:
            continue
        server = make(work, small)
        ends.append(server.end)
        wait_for(server.port)
        out[name] = server.run
        servers[name] = server.process.pid
    return {name: (run, servers.get(name)) for name, run in out.items()}, ends


def watchers(args, work):
    report = f"{work}/report.json"
    brink = [args.brink, "cfi", "run", "-a", "--sink", "json:/dev/null", "--report", report]
    rows = {"attached": lambda: Watcher([*brink, "--attach-only"], "watching", report),
            "sensitive": lambda: Watcher([*brink, "--check", "sensitive"], "watching", report),
            "all": lambda: Watcher([*brink, "--check", "all"], "watching", report)}
    if shutil.which("bpftrace"):
        # It says that it attaches before it does.
        rows["bpftrace"] = lambda: Watcher(["sh", "-c", 'exec bpftrace -e "$0" 3>&1 >&2 2>&3', SCRIPT], "Attaching")
    return {name: make for name, make in rows.items() if not args.rows or name in args.rows.split(",")}


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def once(load):
    """Seconds by the clock (or what the load says a piece of its work took), of processors (the load's server too) for as much work, and by the clock in all."""
    run, server = load
    before, served = os.times(), cpu_of(server) if server else 0
    begin = time.monotonic()
    piece = run()
    seconds = time.monotonic() - begin
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system + (cpu_of(server) - served if server else 0)
    return (piece, cpu * piece, seconds) if isinstance(piece, float) else (seconds, cpu, seconds)


def pieces_of(run, count):
    """As once(), of some pieces: the medians of time and CPU time, and the clock's in all."""
    pieces = [once(run) for _ in range(count)]
    return statistics.median(p[0] for p in pieces), statistics.median(p[1] for p in pieces), sum(p[2] for p in pieces)


def rounds_of(run, rows, count, pieces):
    """{row: [(time, CPU time, the watcher's CPU time beside it)]}, relative to the mean of the bare runs before and behind it, and {row: its last report}."""
    times, reports = {name: [] for name in rows}, {}
    once(run)  # caches
    bare = pieces_of(run, pieces)
    for _ in range(count):
        for name, start in rows.items():
            with start() as watcher:
                if name == "bpftrace":
                    time.sleep(1.0)
                elif name != "attached":
                    once(run)  # what it meets is known: cold misses apart
                begin = cpu_of(watcher.process.pid)
                seconds, cpu, passed = pieces_of(run, pieces)
                own = (cpu_of(watcher.process.pid) - begin) / passed
            if watcher.report:
                reports[name] = watcher.counts()
            behind = pieces_of(run, pieces)
            times[name].append((2 * seconds / (bare[0] + behind[0]), 2 * cpu / (bare[1] + behind[1]), own))
            bare = behind
    return times, reports


def row_of(times, report):
    (slower, low, high), (cpu, cpu_low, cpu_high) = (interval([100 * (t[kind] - 1) for t in times]) for kind in (0, 1))
    row = {"slower_percent": slower, "low": low, "high": high, "load_cpu_percent": cpu, "cpu_low": cpu_low, "cpu_high": cpu_high, "own_cpu_percent": 100 * statistics.median(t[2] for t in times)}
    if report:
        walks = max(1, report["checks"] - report["throttled"] - report["nested"])
        cold = sum(n for reason, n in report["misses"].items() if reason != "own writes")
        row.update(checks=report["checks"], throttled=report["throttled"], cold_percent=100 * cold / walks, mean_check_us=report["check_ns"] / walks / 1e3, whole_walk_median_us=report["whole_walk_median_ns"] / 1e3,
                   judge_median_us=report["judge_median_ns"] / 1e3)
    return row


def table(result, rounds):
    print(f"| load | row | slower (median of {rounds}; 95 % interval) | more CPU time of the load | own CPU beside it | checks (throttled) | a check, mean | met code or a process not known yet | whole walk on known code, median below | P1, P8, P2 over 32 branches, median below |\n|---|---|---|---|---|---|---|---|---|---|")
    for load, rows in result.items():
        for name, r in rows.items():
            tail = f"{r['checks']} ({r['throttled']}) | {r['mean_check_us']:.1f} us | {r['cold_percent']:.1f} % | {r['whole_walk_median_us']:.1f} us | {r['judge_median_us']:.2f} us" if r.get("checks") else "| | | |"
            print(f"| {load} | {NAMES[name]} | {r['slower_percent']:+.1f} % ({r['low']:+.1f}, {r['high']:+.1f}) | {r['load_cpu_percent']:+.1f} % ({r['cpu_low']:+.1f}, {r['cpu_high']:+.1f}) | {r['own_cpu_percent']:.1f} % | {tail} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--pieces", type=int, default=3)
    parser.add_argument("--loads", default="find,tar,git,redis,nginx")
    parser.add_argument("--rows", default="")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if os.geteuid():
        print("SKIP needs root")
        return 77
    work = tempfile.mkdtemp(prefix="brink-cfi-cost-")
    result, ends = {}, []
    try:
        chosen, ends = loads(work, args.loads.split(","), args.small)
        rows = watchers(args, work)
        for load, run in chosen.items():
            times, reports = rounds_of(run, rows, args.rounds, args.pieces)
            result[load] = {name: row_of(times[name], reports.get(name)) for name in rows}
            print(f"{load}: done", file=sys.stderr, flush=True)
    finally:
        for end in ends:
            end()
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        print(json.dumps(result))
    else:
        table(result, args.rounds)
    if not args.check:
        return 0
    bad = [f"{load} {name}" for load, rows in result.items() for name, r in rows.items() if r["slower_percent"] > BARS.get(name, 1e9) or r.get("judge_median_us", 0) > 3.0]
    print("above the bar: " + ", ".join(bad) if bad else "within the bars")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
