#!/usr/bin/env python3
"""brink cfi run, live, in an arm64 guest: what it says of the attacks, that it says nothing of the guest's honest programs, and
that what it refuses does not happen.

usage: arm64_cfi_live_test.py BUILD_FOLDER [--parts attacks,honest,deny] [--only A3,A9] [--keep DIR]     (77: skipped, with the reason)"""
import argparse
import collections
import json
import os
import shutil
import sys
import tempfile

import arm64_cfi_test as offline

# What a walk must have seen before the page became executable (docs/cfi.md has all of the table), and what none sees.
MINIMUM = ["A1r", "A2", "A2r", "A3", "A3r", "A4", "A5r", "A6", "A9", "A11", "A17r", "A20"]
MISSED = ["A1", "A7", "A8", "A14", "A15", "A19"]
# A server is known to the monitor by then: the guest's clock counts instructions, so that this does not depend on other work.
ROUNDS = 300
SURE = ("medium", "high", "critical")
WATCH = "cfi run -q --every --min-severity low --share 100 --walk-budget 100us --warm /usr/lib/aarch64-linux-gnu/libc.so.6"

# Of the honest programs of tests/runtime/cfi/benign, built with pointer authentication and branch target identification: those that say
# nothing of code made at run time.
BENIGN = [f"B{i}" for i in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 19, 20)]
# Honest programs of Debian and busybox: what they do is small, but they read, fork, execute, map and sort.
HONEST = {
    "busybox": "busybox ls -lR /usr/lib > /tmp/one; for i in 1 2 3 4 5 6 7 8; do cat /tmp/one; done > /tmp/list; for i in 1 2 3 4; do busybox sort /tmp/list | busybox uniq -c | busybox awk '{ n += $1 } END { print n }' > /dev/null; busybox md5sum /tmp/list > /dev/null; done",
    "sh": "i=0; while [ $i -lt 60 ]; do echo $(cat /proc/self/status | grep -c .) > /dev/null; i=$((i + 1)); done",
    "gzip": "for i in 1 2 3; do /bin/gzip -6 -c /tmp/list | /bin/gzip -dc > /dev/null; done",
    "xz": "/usr/bin/xz -0 -c /tmp/list | /usr/bin/xz -dc > /dev/null",
    "bzip2": "/bin/bzip2 -1 -c /tmp/list | /bin/bzip2 -dc > /dev/null",
    "perl": "LC_ALL=C perl -e 'my %h; for my $i (1..3000) { $h{$i % 97} .= chr(65 + $i % 26); eval { die \"x\" if $i % 10 == 0 }; } for (1..5) { open(F, \"/tmp/list\"); while (<F>) { $n++ if /lib(\\w+)\\.so/ } } print $n; system(\"true\") for 1..20'",
    "python3": "python3 -S -c 'import subprocess, threading; d = {i: str(i) for i in range(5000)}; t = [threading.Thread(target=sorted, args=(list(d.values()),)) for _ in range(4)]; [x.start() for x in t]; [x.join() for x in t]; "
               "n = [len(open(\"/tmp/list\").read().split()) for _ in range(5)]; [subprocess.run([\"true\"]) for _ in range(20)]'",
    "sed": "for i in 1 2 3; do /bin/sed -n 's/lib/LIB/gp' /tmp/list > /dev/null; done",
    "sort": "/usr/bin/sort -k 5 /tmp/list > /dev/null",
    "sqlite3": "sqlite3 /tmp/base 'create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) insert into t select x, x * x from c; select sum(b) from t where a % 7 = 1;'; for i in 1 2 3 4 5; do sqlite3 /tmp/base 'update t set b = b + 1; select sum(b) from t;'; done",
    "openssl": "for i in 1 2 3; do openssl dgst -sha256 /tmp/list; done",
}


def attacks_script(brink, folder, attack, names):
    """All attacks below one monitor, each a program of its own name."""
    links = "\n".join(f"ln -s {attack} /tmp/{name}" for name in names)
    each = "; ".join(f"timeout 200 /tmp/{name} {name}; echo {name} $? >> /out/status" for name in names)
    return f"""{links}
ATTACK_ROUNDS={ROUNDS} {brink} {WATCH} --warm {attack} --warm {folder}/libprobe.so --sink json:/out/attacks.json --report /out/attacks.report -- sh -c '{each}; true' > /out/attacks.said 2>&1
echo monitor $? >> /out/status"""


def honest_script(brink, folder, _attack, _names):
    lines, programs = [], {**HONEST, "benign": "; ".join(f"{folder}/plain {name} 6 || exit 1" for name in BENIGN)}
    for name, text in programs.items():
        lines += [f"cat > /tmp/{name}.sh <<'END'", text, "END"]
    each = "; ".join(f"sh /tmp/{name}.sh > /dev/null 2> /out/{name}.err; echo {name} $? >> /out/status" for name in programs)
    lines.append(f"{brink} {WATCH} --sink json:/out/honest.json --report /out/honest.report -- sh -c '{each}; true' > /out/honest.said 2>&1")
    lines.append("echo monitor.honest $? >> /out/status")
    # What was learned of a program knows its edges.
    lines.append(f"{brink} cfi learn -q -o /out/base -- sh /tmp/benign.sh > /out/learn.said 2>&1; echo learn $? >> /out/status")
    return "\n".join(lines)


def deny_script(brink, folder, attack, _names):
    """A3 ends in the page that it makes executable: 43 is that page's code, 139 a jump into a page that is none. exec executes a program:
    44 is that one's, 42 the chain's own, which goes on behind a call that failed."""
    lines = [f"ln -sf {attack} /tmp/{name}" for name in ("A3", "exec")]
    for word in ("", "--act"):
        name = "act" if word else "dry"
        each = "; ".join(f"/tmp/{a} {a}; echo {name}.{a} $? >> /out/status" for a in ("A3", "exec"))
        lines.append(f"ATTACK_PROVE=1 ATTACK_ROUNDS={ROUNDS} {brink} {WATCH} --warm {attack} --warm {folder}/libprobe.so --check sensitive --hook raw --deny P1,P2 {word} --sink json:/out/{name}.json "
                     f"--report /out/{name}.report -- sh -c '{each}; true' > /out/{name}.said 2>&1; echo monitor.{name} $? >> /out/status")
    return "\n".join(lines)


def guest(brink, folder, attack, script):
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    words = [os.path.join(offline.ROOT, "tools/vm"), "run", "--kernel", "6.12-arm64", "--counted", "--memory", "2G", "--timeout", "2400", "--packages", "arm64-fidelity", "--out", out]
    for path in (brink, attack, os.path.join(folder, "libprobe.so"), os.path.join(folder, "plain"), "/usr/lib/aarch64-linux-gnu/libm.so.6"):
        words += ["--add", path] if os.path.exists(path) else []
    offline.run(words + ["--shell", "mount -t tracefs tracefs /sys/kernel/tracing 2> /dev/null\n" + script + "\ntrue"])
    with open(os.path.join(out, "status"), encoding="utf-8") as file:
        return out, dict(line.split() for line in file)


def said(out, name):
    path = os.path.join(out, name + ".said")
    return open(path, encoding="utf-8", errors="replace").read()[-600:] if os.path.exists(path) else ""


def counts(out, name):
    path = os.path.join(out, name + ".report")
    return json.load(open(path, encoding="utf-8")) if os.path.exists(path) and os.path.getsize(path) else {}


def judge_attacks(out, status, names):
    """The table, and what is not as it should be."""
    rows = {name: collections.defaultdict(set) for name in names}
    for alarm in offline.lines_of(os.path.join(out, "attacks.json")):
        name, point, call = alarm["process"]["comm"], alarm["hook"]["point"], alarm["hook"]["syscall"]
        if name not in rows:
            continue
        row = rows[name]
        row["entry" if point == "syscall_enter" else "exit"].update(alarm["policy_ids"])
        # The effect is that the page becomes executable; A20's is the jump into it, which its end still comes before.
        if point == "syscall_enter" or (point == "syscall_exit" and (name == "A20" or call not in ("mprotect", "mmap"))):
            row["before"].update([alarm["severity"]])
    print("| attack | live, at entries | live, at exits | before the effect | effect |\n|---|---|---|---|---|")
    bad = [] if status.get("monitor") == "0" else [f"monitor: status {status.get('monitor')}: {said(out, 'attacks')}"]
    for name in names:
        row = rows[name]
        cell = {key: " ".join(sorted(row[key], key=lambda p: int(p[1:]))) or "-" for key in ("entry", "exit")}
        print(f"| {name} | {cell['entry']} | {cell['exit']} | {'yes' if row['before'] else 'no'} | {'yes' if status.get(name) == '42' else 'status ' + status.get(name, '?')} |")
        if name in MINIMUM and not row["before"] & set(SURE):
            bad.append(f"{name} was not seen before its effect")
        if name in MISSED and row["before"] & set(SURE):
            bad.append(f"{name} is documented as missed")
        if status.get(name) != "42":
            bad.append(f"{name} had no effect")
    report = counts(out, "attacks")
    print(f"checks {report.get('checks')}, edges {report.get('edges')}, checked {report.get('checked')}\n")
    return bad


def judge_honest(out, status, _names):
    alarms = [alarm for alarm in offline.lines_of(os.path.join(out, "honest.json")) if alarm["severity"] in SURE]
    report = counts(out, "honest")
    print(f"honest programs: {', '.join([*HONEST, *BENIGN])}\nchecks {report.get('checks')}, edges {report.get('edges')}, checked {report.get('checked')}, alarms of medium and above {len(alarms)}\n")
    for alarm in alarms[:5]:
        print("ALARM " + json.dumps(alarm)[:1500])
    bad = [f"{len(alarms)} alarms at honest programs"] if alarms else []
    for name in [*HONEST, "benign", "monitor.honest", "learn"]:
        if status.get(name) != "0":
            bad.append(f"{name}: status {status.get(name)}: {said(out, 'honest' if 'monitor' in name else name)}")
    if not report.get("checked", 0) > 1000:
        bad.append(f"only {report.get('checked')} edges were checked")
    learned = os.path.exists(os.path.join(out, "base")) and os.path.getsize(os.path.join(out, "base")) > 1000
    return bad + ([] if learned else ["nothing was learned"])


def judge_deny(out, status, _names):
    dry, act = (counts(out, name).get("actions", {}) for name in ("dry", "act"))
    print("| chain to | dry run: status | denied: status |\n|---|---|---|")
    for name, call in (("A3", "mprotect"), ("exec", "execve")):
        print(f"| {call} ({name}) | {status.get('dry.' + name)} | {status.get('act.' + name)} |")
    print(f"dry: {dry.get('dry')} would have been refused; denied {act.get('denied')}\n")
    wanted = {"dry.A3": "43", "dry.exec": "44", "act.A3": "139", "act.exec": "42", "monitor.dry": "0", "monitor.act": "0"}
    bad = [f"{name}: status {status.get(name)}, not {value}: {said(out, name.split('.')[-1]) if 'monitor' in name else ''}" for name, value in wanted.items() if status.get(name) != value]
    if not act.get("denied", 0) >= 2 or dry.get("denied", 0) or not dry.get("dry", 0) >= 2:
        bad.append(f"actions: dry run {dry}, denied {act}")
    return bad


PARTS = {"attacks": (attacks_script, judge_attacks), "honest": (honest_script, judge_honest), "deny": (deny_script, judge_deny)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    brink = os.path.join(offline.need(arguments.build, "brink"), "brink")
    bad = []
    with tempfile.TemporaryDirectory() as made:
        folder = os.path.abspath(arguments.keep or made)
        os.makedirs(folder, exist_ok=True)
        attack, _probe, _honest = offline.build(folder)
        names = [name for name in [*offline.EXPECTED, *offline.MISSED, *offline.TOLD] if not arguments.only or name in arguments.only.split(",")]
        names = sorted(names, key=lambda n: (int("".join(c for c in n[1:] if c.isdigit())), n))
        for part in arguments.parts.split(","):
            write, judge = PARTS[part]
            out, status = guest(brink, folder, attack, write(brink, folder, attack, names))
            bad += judge(out, status, names)
    if bad:
        sys.exit("not as it should be: " + "; ".join(bad))
    print("live on arm64: as documented")


if __name__ == "__main__":
    main()
