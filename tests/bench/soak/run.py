#!/usr/bin/python3
"""Soak: `brink record` under a storm of exec, fork and dlopen beside a program whose code is made at run time.

  run.py BUILD [--minutes 30] [--rate 4] [--warm-up 5] [--out FILE] [brink record options...]

Looks every ten seconds at brink's memory, descriptors, threads and the entries of its BPF maps. Fails (status 1) where,
after the warm-up, its memory (resident: heap, buffers, rings, BPF maps; not the pages of program and library files, which
the kernel takes away and gives back as it likes) or its heap and buffers alone grew by 5 % or more, descriptors or threads changed, maps grew, or the books do not
balance: sent = written + lost. Writes a curve as a table of Markdown.
"""
import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
GET_NEXT_KEY, MAP_GET_FD_BY_ID = 4, 14
HASHES = {1: "hash", 5: "percpu_hash", 9: "lru_hash", 10: "lru_percpu_hash"}
libc = ctypes.CDLL(None, use_errno=True)

NODE = r"""
let n = 0;
function turn() {
  const f = new Function('a', 'let s = ' + (n % 50) + '; for (let i = 0; i < 3000; ++i) s = (s * 31 + a + i) | 0; return s;');
  for (let i = 0; i < 40; ++i) f(i);
  JSON.parse(JSON.stringify({ n, f: 'x'.repeat(n % 100) }));
  ++n;
  setTimeout(turn, 100);
}
turn();
"""


def bpf(command, attr):
    return libc.syscall(SYS_BPF, command, ctypes.byref(attr), ctypes.sizeof(attr))


class NextKey(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("key", ctypes.c_uint64), ("next", ctypes.c_uint64), ("flags", ctypes.c_uint64)]


class ById(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("next", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


def entries(map_id, key_size):
    """How many keys a hash map has now."""
    fd = bpf(MAP_GET_FD_BY_ID, ById(id=map_id))
    if fd < 0:
        return 0
    buffers = [ctypes.create_string_buffer(key_size), ctypes.create_string_buffer(key_size)]
    count, attr = 0, NextKey(fd=fd, key=0, next=ctypes.addressof(buffers[0]))
    while bpf(GET_NEXT_KEY, attr) == 0 and count < 1 << 20:
        count += 1
        attr.key = ctypes.addressof(buffers[(count - 1) % 2])
        attr.next = ctypes.addressof(buffers[count % 2])
    os.close(fd)
    return count


def maps_of(pid):
    """{name: (id, key size)} of the hash maps that the process holds."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            text = open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8").read()
        except OSError:
            continue
        fields = dict(re.findall(r"^(\w+):\t(\w+)", text, re.M))
        if "map_id" in fields and int(fields["map_type"]) in HASHES:
            found[int(fields["map_id"])] = int(fields["key_size"])
    return found


def status_of(pid):
    text = open(f"/proc/{pid}/status", encoding="utf-8").read()
    return {key: int(value) for key, value in re.findall(r"^(VmRSS|RssAnon|RssFile|RssShmem|Threads):\s+(\d+)", text, re.M)}


def resident(pid):
    """KiB resident of the process's own memory, and of pages of files."""
    own = files = 0
    mapped = False
    for line in open(f"/proc/{pid}/smaps", encoding="utf-8"):
        if "-" in line.split(" ", 1)[0]:
            mapped = line.rstrip().partition("/")[1] == "/" and " r" in line and "w" not in line.split()[1]
        elif line.startswith("Rss:"):
            size = int(line.split()[1])
            own, files = (own, files + size) if mapped else (own + size, files)
    return own, files


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat", encoding="utf-8").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def build_storm(folder):
    storm = os.path.join(folder, "storm")
    subprocess.run(["gcc", "-O1", "-o", storm, os.path.join(HERE, "storm.c"), "-ldl"], check=True)
    source = os.path.join(folder, "work.c")
    libraries = []
    for i in range(12):
        with open(source, "w", encoding="ascii") as file:
            file.write(f"unsigned work(unsigned n) {{ unsigned s = {i}; for (unsigned i = 0; i < n; ++i) s = i % {i + 3} ? s * 31 + i : s ^ i; return s; }}\n")
        libraries.append(os.path.join(folder, f"libwork{i}.so"))
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", libraries[-1], source], check=True)
    return storm, libraries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--rate", type=float, default=4)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--out")
    args, options = parser.parse_known_args()
    brink = os.path.join(args.build, "brink")
    work = tempfile.mkdtemp(prefix="brink-soak-")
    try:
        return soak(args, options, brink, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def soak(args, options, brink, work):
    storm, libraries = build_storm(work)
    seconds = args.minutes * 60
    node = shutil.which("node")
    script = f"{storm} {args.rate} {seconds + 20} {' '.join(libraries)} >/dev/null & S=$!; "
    if node:
        with open(os.path.join(work, "jit.js"), "w", encoding="ascii") as file:
            file.write(NODE)
        script += f"{node} {work}/jit.js & "
    script += "N=$!; trap 'kill $S $N 2>/dev/null' TERM EXIT; wait $S"
    data, report = os.path.join(work, "x.data"), os.path.join(work, "report.json")
    words = [brink, "record", "-F", "199", "-g", "-o", data, "--json=" + report, *options, "--", "bash", "-c", script]
    run = subprocess.Popen(words, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    rows, begin = [], time.monotonic()
    while time.monotonic() - begin < seconds and run.poll() is None:
        time.sleep(args.every)
        if run.poll() is not None:
            break
        maps = maps_of(run.pid)
        status = status_of(run.pid)
        own, files = resident(run.pid)
        rows.append({"minutes": (time.monotonic() - begin) / 60, "own": own, "files": files, "anon": status["RssAnon"], "threads": status["Threads"],
                     "fds": len(os.listdir(f"/proc/{run.pid}/fd")), "maps": sum(entries(*pair) for pair in maps.items()), "cpu": cpu_seconds(run.pid)})
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=120)
    return judge(args, rows, run.returncode, err, json.load(open(report, encoding="utf-8")), node)


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def judge(args, rows, status, err, report, node):
    problems = []
    after = [row for row in rows if row["minutes"] >= args.warm_up]
    quarter = max(1, len(after) // 4)
    first, last = after[:quarter], after[-quarter:]
    growth = {key: median(last, key) / max(1, median(first, key)) - 1 for key in ("own", "anon", "maps")}
    for key, what in (("own", "memory"), ("anon", "heap and buffers")):
        if growth[key] >= 0.05:
            problems.append(f"{what} grew by {100 * growth[key]:.1f} %")
    for key in ("fds", "threads"):  # a look may meet one file of /proc open
        if median(first, key) != median(last, key) or max(row[key] for row in after) > median(first, key) + 2:
            problems.append(f"{key} changed: {sorted({row[key] for row in after})}")
    # The code cache fills and empties in turns: its peaks must not rise.
    half = len(rows) // 2
    if max(row["maps"] for row in rows[half:]) >= 1.05 * max(row["maps"] for row in rows[:half]):
        problems.append(f"map entries grew by {100 * growth['maps']:.1f} %")
    if report["samples_sent"] != report["samples_written"] + report["samples_lost"]:
        problems.append("sent is not written + lost")
    if status != 0:
        problems.append(f"status {status}: {err.strip()[-300:]}")
    lines = [f"{rows[-1]['minutes']:.0f} minutes at {args.rate:g} turns a second (an exec, a fork and a dlopen each){' beside node' if node else ''}: "
             f"{report['samples_sent']} samples sent, {report['samples_written']} written, {report['samples_lost']} lost, {report['side_band_records']} side-band records, "
             f"{report['own_cpu_ns'] / 1e9:.1f} s of brink's CPU time; "
             f"after {args.warm_up:g} minutes memory {100 * growth['own']:+.1f} %, heap and buffers {100 * growth['anon']:+.1f} %, map entries {100 * growth['maps']:+.1f} %.", "",
             "| minute | own memory, MiB | of it heap and buffers | file pages | descriptors | threads | map entries | CPU s |", "|---|---|---|---|---|---|---|---|"]
    step = max(1, len(rows) // 15)
    for row in rows[step - 1::step]:
        lines.append(f"| {row['minutes']:.0f} | {row['own'] / 1024:.1f} | {row['anon'] / 1024:.1f} | {row['files'] / 1024:.1f} | {row['fds']} | {row['threads']} | {row['maps']} | {row['cpu']:.1f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(text)
    for problem in problems:
        print("NOT FLAT: " + problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
