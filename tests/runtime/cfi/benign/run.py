#!/usr/bin/python3
"""The honest programs B1 to B20 under brink cfi: no alarm of medium or above is allowed. Prints the table of docs/cfi.md.

  run.py BUILD [--rounds 300] [--check] [--keep DIR]
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

HERE = pathlib.Path(__file__).resolve().parent
WHAT = {"B1": "recursion deeper than the window", "B2": "exceptions through frames", "B3": "longjmp", "B4": "ucontext", "B5": "nested signals, alternate stack", "B6": "mutual tail calls", "B7": "computed goto", "B8": "dlopen, lazy binding",
        "B9": "ifunc", "B10": "a small JIT (policy: jit allow)", "B11": "goroutines", "B12": "Rust panic", "B13": "qsort callbacks", "B14": "vDSO clock", "B15": "pthread_cancel", "B16": "retpolines", "B17": "uretprobe attached",
        "B18": "stripped static-pie", "B19": "fork, vfork, clone", "B20": "C++20 coroutine"}
GO = 'package main\nimport ("fmt"; "os"; "time")\nfunc main() { c := make(chan int); for i := 0; i < 8; i++ { go func() { s := 0; for { for k := 0; k < 100000; k++ { s += k }; c <- s } }() }; r, w, _ := os.Pipe(); b := make([]byte, 1)\n' \
     'for i := 0; i < 400; i++ { <-c; w.Write(b); r.Read(b); time.Sleep(time.Millisecond) }; fmt.Println("done") }\n'
RUST = 'use std::io::{Read, Write};\nfn deep(n: u32) { if n == 0 { panic!("deep") } deep(n - 1); std::hint::black_box(n); }\nfn main() { std::panic::set_hook(Box::new(|_| {})); for _ in 0..300 { let _ = std::panic::catch_unwind(|| deep(5)); ' \
       'let _ = std::fs::File::open("/proc/self/stat").map(|mut f| { let mut s = String::new(); let _ = f.read_to_string(&mut s); }); std::thread::sleep(std::time::Duration::from_millis(1)); } let _ = std::io::stdout().flush(); }\n'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", default="300")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--keep")
    args = parser.parse_args()
    if not shutil.which("g++"):
        print("SKIP needs g++")
        return 77
    work = pathlib.Path(args.keep or tempfile.mkdtemp(prefix="brink-benign-"))
    work.mkdir(exist_ok=True)
    common = ["g++", "-w", "-std=c++20", HERE / "benign.cc"]
    subprocess.run([*common, "-O1", "-fcf-protection=full", "-o", work / "plain", "-lpthread", "-ldl"], check=True)
    subprocess.run([*common, "-O2", "-fno-pie", "-no-pie", "-fcf-protection=none", "-mindirect-branch=thunk", "-mfunction-return=thunk", "-o", work / "thunk", "-lpthread", "-ldl"], check=True)
    subprocess.run([*common, "-O2", "-static-pie", "-s", "-o", work / "static", "-lpthread", "-ldl"], check=True, stderr=subprocess.DEVNULL)
    names = subprocess.run([work / "plain"], capture_output=True, text=True, check=True).stdout.split()
    commands, skipped = [], {}
    for name in names:
        shutil.copy(work / ("thunk" if name == "B16" else "static" if name == "B18" else "plain"), work / name)
        commands.append((name, f"{work}/{name} {name} {args.rounds}"))
    for name, tool, suffix, text in (("B11", "go", ".go", GO), ("B12", "rustc", ".rs", RUST)):
        if not shutil.which(tool):
            skipped[name] = f"{tool} is not installed"
            continue
        source = work / (name + suffix)
        source.write_text(text)
        subprocess.run([tool, "build", "-o", work / name, source] if tool == "go" else [tool, "-O", "-o", work / name, source], check=True)
        commands.append((name, f"{work}/{name}"))
    policy = work / "policy.yaml"
    policy.write_text('version: 1\nentries:\n  - {name: the test JIT, match: {exe: "*/B10"}, jit: allow}\n')
    alarms, report, status = work / "alarms.json", work / "report.json", work / "status"
    for file in (alarms, report, status):
        file.unlink(missing_ok=True)
    script = "".join(f"{command} >/dev/null; echo {name} $? >>{status}; " for name, command in commands)
    brink = f"{args.build}/brink"
    probe = subprocess.Popen([brink, "snap", "-q", "--on", f"uretprobe:{work}/B17:*Probed*"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    probing = probe.poll() is None
    run = subprocess.run([brink, "cfi", "run", "-q", "--every", "--min-severity", "info", "--share", "50", "--policy", policy, "--sink", f"json:{alarms}", "--report", report, "--", "sh", "-c", script + "true"], capture_output=True, text=True,
                         timeout=900)
    probe.terminate()
    probe.wait()
    if run.returncode:
        sys.exit(f"brink cfi run: {run.returncode}: {run.stderr}")
    if not probing:
        skipped["B17"] = "no uretprobe could be attached; ran without"
    counts = collections.defaultdict(collections.Counter)
    evidence = []
    for line in open(alarms, encoding="utf-8"):
        a = json.loads(line)
        counts[a["process"]["comm"]][a["severity"]] += 1
        if a["severity"] in ("medium", "high"):
            evidence.append(f"{a['process']['comm']}: {a['policy_ids']} {a['message']} {a['violation']['from']['symbol']} -> {a['violation']['to']['symbol']} at {a['hook']['point']} {a['hook']['syscall']}")
    ended = dict(line.split() for line in open(status, encoding="utf-8"))
    print("| program | what | ended | low | medium and above |\n|---|---|---|---|---|")
    for name in sorted(WHAT, key=lambda n: int(n[1:])):
        if name not in ended:
            print(f"| {name} | {WHAT[name]} | skipped: {skipped.get(name, '')} | | |")
            continue
        note = f" ({skipped[name]})" if name in skipped else ""
        c = counts[name]
        print(f"| {name} | {WHAT[name]}{note} | {'well' if ended[name] == '0' else 'status ' + ended[name]} | {c['low']} | {c['medium'] + c['high']} |")
    r = json.load(open(report, encoding="utf-8"))
    print(f"\n{r['windows']} windows judged, {r['edges']} edges, {r['checked']} checked; {r['repeated']} windows like one before")
    for line in sorted(set(evidence))[:20]:
        print("ALARM " + line)
    if not args.keep:
        shutil.rmtree(work)
    bad = [n for n, s in ended.items() if s != "0"]
    return 1 if args.check and (evidence or bad) else 0


if __name__ == "__main__":
    sys.exit(main())
