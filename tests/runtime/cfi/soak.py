#!/usr/bin/python3
"""Real programs under brink cfi, checked at system calls and 400 times a second: how many edges are checked, what is unknown, and that nothing of medium or above is told.

  soak.py BUILD [--minutes 30] [--edges 10000000] [--state FILE] [--chunk 45] [--only gdb,go]

Runs until both are reached. With --state it goes on where an earlier run ended. Exit status 1 where there was an alarm.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

# name, what must be installed, shell text; $T is a folder to work in. Each takes some seconds.
WORK = [
    ("bash", "bash", "bash -c 'for ((i=0;i<20000;i++)); do x=${x:0:20}$i; read -r l </proc/self/stat; done'"),
    ("python3", "python3", "python3 -c 'import os,re,json\nfor i in range(4000):\n  f=open(\"/proc/self/status\"); d=re.findall(r\"(\\w+):\\s+(.*)\",f.read()); json.dumps(d); f.close()'"),
    ("node", "node", "node -e 'const fs=require(\"fs\");let n=0;for(let i=0;i<6000;i++){n+=fs.readFileSync(\"/proc/self/stat\").length;JSON.parse(JSON.stringify({a:[i,n]}))}'"),
    ("perl", "perl", "perl -e 'for(1..20000){open(F,\"/proc/self/stat\");$l=<F>;close F;$h{$_%97}.=join(\",\",map{$_*2}split(/ /,$l)) if $_%10==0}'"),
    ("gcc", "gcc", "for i in 1 2 3; do gcc -O2 -c -o $T/x.o -x c - <<<'#include <stdio.h>\n#include <stdlib.h>\nint f(int*a,int n){int s=0;for(int i=0;i<n;i++)s+=a[i]*i;return s;}'; done"),
    ("git", "git", "cd $T && rm -rf g && git init -q g && cd g && for i in $(seq 30); do echo $i >>f; git add f; git -c user.name=a -c user.email=b commit -qm $i; done; git log -p | git grep -c x >/dev/null 2>&1; git log --stat >/dev/null"),
    ("openssl", "openssl", "for i in 1 2 3; do openssl genrsa 1024 2>/dev/null | openssl rsa -pubout 2>/dev/null >/dev/null; seq 100000 | openssl dgst -sha256 >/dev/null; seq 100000 | openssl enc -aes-128-cbc -pass pass:x -pbkdf2 >/dev/null; done"),
    ("sqlite3", "sqlite3", "rm -f $T/db; sqlite3 $T/db 'create table t(a,b);' && for i in 1 2 3 4 5 6; do sqlite3 $T/db \"begin; with recursive c(x) as (select 1 union all select x+1 from c where x<4000) insert into t select x, hex(randomblob(8)) from c; commit; select count(*), max(b) from t where a%7=3;\" >/dev/null; done"),
    ("apt", "apt-cache", "apt-cache search '^lib[a-c]' | tail -1 >/dev/null; apt-cache policy bash gcc python3 >/dev/null; dpkg -l >/dev/null"),
    ("systemd tools", "systemctl", "for i in 1 2 3 4 5; do systemctl --version >/dev/null; systemd-detect-virt >/dev/null 2>&1; systemd-path >/dev/null 2>&1; done"),
    ("gdb", "gdb", "gdb -q -batch -ex 'break main' -ex run -ex bt -ex 'info registers' -ex continue /bin/true >/dev/null 2>&1"),
    ("php", "php", "php -r 'for($i=0;$i<20000;$i++){$a=explode(\" \",file_get_contents(\"/proc/self/stat\"));usort($a,\"strcmp\");}'"),
    ("java", "java", "test -f $T/H.java || echo 'public class H{public static void main(String[] a)throws Exception{long n=0;for(int i=0;i<3000;i++){n+=new java.io.FileInputStream(\"/proc/self/stat\").read();}System.out.println(n);}}' >$T/H.java; java $T/H.java >/dev/null"),
    ("go", "go", "go version >/dev/null; cd $T && mkdir -p gp && cd gp && printf 'package main\\nimport \"fmt\"\\nfunc main(){fmt.Println(1)}\\n' >m.go && GOCACHE=$T/gc go run m.go >/dev/null"),
    ("rust", "rustc", "printf 'fn main(){let v:Vec<u32>=(0..9).collect();println!(\"{:?}\",v);}' >$T/r.rs && rustc -o $T/r $T/r.rs && $T/r >/dev/null"),
    ("qemu TCG", "qemu-system-x86_64", "timeout 12 qemu-system-x86_64 -M pc -m 64 -display none -no-reboot -serial file:$T/q -device isa-debug-exit >/dev/null 2>&1 & P=$!; sleep 8; kill $P 2>/dev/null; wait $P 2>/dev/null"),
    ("find, tar, xz", "tar", "find /usr/share -type f 2>/dev/null | head -20000 | sort -R | head -50 >$T/list; tar cf - -T $T/list 2>/dev/null | xz -1 | xz -d | tar tf - >/dev/null; find /usr/include -name '*.h' -exec grep -l main {} + >/dev/null 2>&1"),
    ("make, sed, awk", "awk", "for i in $(seq 60); do seq 300 | awk '{s+=$1} END {print s}' | sed s/4/5/ >/dev/null; done"),
]


def chunk(brink, work, seconds, jobs):
    """One monitor over a mixed load; its report and alarms."""
    alarms, report, ran = work / "alarms.json", work / "report.json", work / "ran"
    for file in (alarms, report, ran):
        file.unlink(missing_ok=True)
    lines = ["T=" + str(work), "end=$(($(date +%s) + " + str(seconds) + "))"]
    body = "".join(f"( {text}\n); echo '{name}' >>$T/ran; [ $(date +%s) -lt $end ] || break\n" for name, _tool, text in jobs)
    lines.append("while :; do\n" + body + "done")
    script = work / "load.sh"
    script.write_text("\n".join(lines) + "\n")
    run = subprocess.run([brink, "cfi", "run", "-q", "--repeats", "--share", "40", "--depth", "128", "--walk-budget", "100us", "-F", "400", "--min-severity", "medium", "--every", "--sink", f"json:{alarms}", "--report", report, "--", "bash", script], stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True, timeout=seconds * 10 + 600)
    if not report.exists():
        sys.exit(f"brink cfi run: {run.returncode}: {run.stderr}")
    told = [json.loads(line) for line in open(alarms, encoding="utf-8")] if alarms.exists() else []
    names = collections.Counter(open(ran, encoding="utf-8").read().splitlines()) if ran.exists() else collections.Counter()
    return json.load(open(report, encoding="utf-8")), told, names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--state")
    parser.add_argument("--chunk", type=int, default=45)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    state = {"seconds": 0, "edges": 0, "checked": 0, "windows": 0, "alarms": [], "policies": {}, "ran": {}, "missing": {}, "stops": {}, "exceptions": {}, "throttled": 0, "checks": 0, "lost": 0, "unwind_edges": 0, "unwind_unknown": 0}
    if args.state and os.path.exists(args.state):
        state = json.load(open(args.state, encoding="utf-8"))
    jobs = [job for job in WORK if shutil.which(job[1]) and (not args.only or job[0] in args.only.split(","))]
    work = pathlib.Path(tempfile.mkdtemp(prefix="brink-soak-"))
    turn = 0
    try:
        while state["seconds"] < args.minutes * 60 or state["checked"] < args.edges:
            turn += 1
            order = jobs[turn * 5 % len(jobs):] + jobs[:turn * 5 % len(jobs)]
            begin = time.monotonic()
            report, told, names = chunk(f"{args.build}/brink", work, args.chunk, order)
            state["seconds"] += time.monotonic() - begin
            for key in ("edges", "checked", "windows", "throttled", "checks", "lost", "unwind_edges", "unwind_unknown"):
                state[key] += report[key]
            for name, p in report["policies"].items():
                mine = state["policies"].setdefault(name, {"held": 0, "violated": 0, "excepted": 0, "unknown": {}})
                for key in ("held", "violated", "excepted"):
                    mine[key] += p[key]
                for reason, n in p["unknown"].items():
                    mine["unknown"][reason] = mine["unknown"].get(reason, 0) + n
            for field, source in (("ran", names), ("missing", report["files_missing"]), ("stops", report["stops"]), ("exceptions", report["exceptions"])):
                for key, n in source.items():
                    state[field][key] = state[field].get(key, 0) + n
            state.setdefault("whole", []).extend(told[:max(0, 20 - len(state.get("whole", [])))])
            for a in told:
                v = a["violation"]
                state["alarms"].append(f"{a['process']['comm']}: {'+'.join(a['policy_ids'])} {a['severity']}: {a['message']}; {v['from']['module']} {v['from']['symbol']} -> {v['to']['module']} {v['to']['symbol']} at {a['hook']['point']} {a['hook']['syscall']}")
            if args.state:
                json.dump(state, open(args.state + ".tmp", "w", encoding="utf-8"))
                os.replace(args.state + ".tmp", args.state)
            print(f"{state['seconds'] / 60:.1f} min, {state['checked']} checked edges, {len(state['alarms'])} alarms", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{state['seconds'] / 60:.1f} minutes, {state['windows']} windows, {state['edges']} edges, {state['checked']} checked ({100 * state['checked'] / max(1, state['edges']):.2f} %), {len(state['alarms'])} alarms of medium or above")
    share = 100 * state["unwind_unknown"] / max(1, state["unwind_edges"])
    print(f"of {state['unwind_edges']} returns, indirect calls and jumps between files with unwind tables {state['unwind_unknown']} ({share:.2f} %) without an answer of P1 to P5; {state['checks']} checks, {state['throttled']} throttled, {state['lost']} lost")
    print("programs run: " + ", ".join(f"{k} {v}" for k, v in sorted(state["ran"].items())))
    print("\n| rule | held | violated (low) | excepted | unknown | because |\n|---|---|---|---|---|---|")
    for name, p in state["policies"].items():
        unknown = sum(p["unknown"].values())
        if p["held"] + p["violated"] + p["excepted"] + unknown:
            print(f"| {name} | {p['held']} | {p['violated']} | {p['excepted']} | {unknown} | " + ", ".join(f"{k} {v}" for k, v in p["unknown"].items()) + " |")
    print("walks ended by: " + ", ".join(f"{k} {v}" for k, v in sorted(state["stops"].items(), key=lambda kv: -kv[1]) if v))
    print("excepted as: " + ", ".join(f"{k} {v}" for k, v in state["exceptions"].items() if v))
    for a in state.get("whole", [])[:5]:
        print("WHOLE " + json.dumps(a))
    for line, n in collections.Counter(state["alarms"]).most_common(30):
        print(f"ALARM {n}x {line}")
    return 1 if state["alarms"] else 0


if __name__ == "__main__":
    sys.exit(main())
