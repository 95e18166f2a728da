#!/usr/bin/python3
"""The rows of run.py that need kernel probes, in a guest whose kernel has them, against bpftrace in the same guest. Its clock counts its
instructions (4 a nanosecond; tools/vm run --counted): the figures are work and not the speed of the emulation, and hold for comparing
the columns, not for a processor with caches.

usage: guest.py [--kernel NAME] [--brink build/brink] [--bpftrace bpftrace] [--rounds N] [--kinds a,b] [--json]
"""
import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTION = "__x64_sys_getppid"
INNER = "__task_pid_nr_ns"  # called by it; the types of the kernel do not have the other one
# name: brink's trigger, bpftrace's probe. The first is there to compare with run.py's row.
KINDS = {
    "tracepoint": ("tracepoint:raw_syscalls:sys_enter", "tracepoint:raw_syscalls:sys_enter"),
    "kprobe": (f"kprobe:{FUNCTION}", f"kprobe:{FUNCTION}"),
    "kretprobe": (f"kretprobe:{FUNCTION}", f"kretprobe:{FUNCTION}"),
    "fentry": (f"fentry:{INNER}", f"kfunc:{INNER}"),
    "fexit": (f"fexit:{INNER}", f"kretfunc:{INNER}"),
}
# Of the guest's shell. `ask` has load.c do work; `armed` waits for what a tracer says when it is armed; both end it all where they fail.
SHELL = """
cd "$FOLDER"; mkfifo in out; ./load < in > out & exec 3> in 4< out
read -r word pid rest <&4
ask() { echo "syscall $1" >&3; read -r ns <&4; echo "$2 $ns" >> /out/ns; }
armed() { i=0; until grep -q "$1" said; do sleep 0.2; i=$((i+1)); kill -0 $tracer 2> /dev/null && [ $i -lt 1500 ] || return 1; done; sleep 1; }
end() { kill -INT $tracer; wait $tracer; }
brink() { "$BRINK" snap --source none --on "$1" --if "$2" > /dev/null 2> said & tracer=$!; armed 'armed, Ctrl-C'; }
bpftrace() { "$BPFTRACE" -e "$1 /$2/ { printf(\\"%d %s %s %s\\", pid, comm, kstack, ustack); }" > said 2>&1 & tracer=$!; armed Attaching; }
few() { ask 200 warm; ask $1 "$2"; end; }
"""


def script(args, folder, bpftrace):
    names = args.kinds.split(",") if args.kinds else list(KINDS)
    lines = [f"FOLDER={shlex.quote(folder)} BRINK={shlex.quote(os.path.abspath(args.brink))} BPFTRACE={shlex.quote(bpftrace or '')}", SHELL]
    for name in names:
        trigger, probe = KINDS[name]
        for _ in range(args.rounds):
            lines.append(f"ask 20000 '{name}|bare'")
            lines.append(f"brink {trigger} 'pid == 1' && few 20000 '{name}|brink false'")
            lines.append(f"brink {trigger} \"pid == $pid\" && few 2000 '{name}|brink captured'")
            if bpftrace:
                lines.append(f"bpftrace {probe} 'pid == 1' && few 20000 '{name}|bpftrace false'")
                lines.append(f"bpftrace {probe} \"pid == $pid\" && few 2000 '{name}|bpftrace captured'")
    return "\n".join(lines + ["exec 3>&-", "exit 0"])


def figures(path):
    """{kind: {column: median ns above the bare call}}"""
    times = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            key, _, ns = line.rstrip().rpartition(" ")
            kind, bar, column = key.partition("|")
            if bar:
                times.setdefault(kind, {}).setdefault(column, []).append(float(ns))
    return {kind: {column: statistics.median(values) - (0 if column == "bare" else statistics.median(columns["bare"])) for column, values in columns.items()} for kind, columns in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--bpftrace", default="bpftrace")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    bpftrace = shutil.which(args.bpftrace)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["gcc", "-O2", "-static", "-o", os.path.join(folder, "load"), os.path.join(HERE, "load.c")], check=True)
        out = os.path.join(folder, "out")
        added = [os.path.abspath(args.brink), folder, *([bpftrace] if bpftrace else [])]
        words = [os.path.join(TOP, "tools/vm"), "run", "--kernel", args.kernel, "--counted", "--memory", "2G", "--timeout", "1500", "--out", out]
        done = subprocess.run(words + [word for path in added for word in ("--add", path)] + ["--shell", script(args, folder, bpftrace)], check=False)
        if not os.path.exists(os.path.join(out, "ns")):
            sys.exit(done.returncode or "the guest has left no figures")
        rows = figures(os.path.join(out, "ns"))
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    columns = ["bare", "brink false", "bpftrace false", "brink captured", "bpftrace captured"]
    print(f"{'ns a hit':<14}" + "".join(f"{column:>19}" for column in columns))
    for kind, row in rows.items():
        print(f"{kind:<14}" + "".join(f"{row[column]:>19.0f}" if column in row else f"{'-':>19}" for column in columns))


if __name__ == "__main__":
    main()
