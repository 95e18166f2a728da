#!/usr/bin/env python3
"""Control-flow policies on arm64: the attacks and the honest programs that make sense there, in a guest. Attacks run to their effect, and once
more by single step, where the exact branches are judged at each system call; honest programs are recorded and their recordings judged.

usage: arm64_cfi_test.py BUILD_FOLDER [--only A3,B1] [--keep DIR]     (77: skipped, with the reason)"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
SOURCES = os.path.join(ROOT, "tests/runtime/cfi")
CROSS = "aarch64-linux-gnu-"
FLAGS = ["-O1", "-w", "-fno-stack-protector", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-fno-optimize-sibling-calls", "-mbranch-protection=none", "-fPIE"]
# What the exact branches must break at least. A12 is not there: instructions have no middle. The others are documented misses.
EXPECTED = {"A1": "P1 P2", "A1r": "P1 P2", "A2": "P1", "A2r": "P1", "A3": "P1", "A3r": "P1", "A4": "P1", "A5": "P2", "A5r": "P2", "A6": "P1", "A9": "P1", "A10": "P1",
            "A11": "P4", "A13": "P3", "A16": "P4", "A17": "P1", "A17r": "P1", "A18": "P4", "A20": "P8", "A21": "P7"}
MISSED = ("A7", "A14", "A15", "A19")
# What shows is told, and nothing is asked of it: a sleep empties the history before A8; a forged frame (A10l) and A22 were not seen here yet.
TOLD = ("A8", "A10l", "A22")
ROUNDS = "12"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def need(build_folder, *targets):
    """The arm64 build beside `build_folder`; skips where that is not to be, or not there."""
    if not os.environ.get("BRINK_LONG"):
        skip("a long lane: tools/test --long, or BRINK_LONG=1")
    tree = os.path.join(os.path.dirname(os.path.abspath(build_folder)), "build-arm64")
    missing = [name for name in targets if not os.path.exists(os.path.join(tree, name))]
    if missing or not shutil.which(CROSS + "g++"):
        skip(f"no cross compiler, or no build-arm64/{' '.join(missing)} (tools/setup --arm64; cmake --preset arm64)")
    return tree


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 77:
        skip(done.stderr.strip() or done.stdout.strip())
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def build(folder):
    """Programs for the guest in `folder`; the names of those that are there."""
    attacks, probe = os.path.join(SOURCES, "attacks"), os.path.join(folder, "libprobe.so")
    run([CROSS + "gcc", "-shared", "-fPIC", "-O1", "-o", probe, os.path.join(attacks, "library.c")])
    objects = []
    for name in ("gadgets_a64.c", "machine_a64.c", "server.c", "main.c", "slot.c", "throw.cc"):
        objects.append(os.path.join(folder, name + ".o"))
        run([CROSS + ("g++" if name.endswith("cc") else "gcc"), *FLAGS, "-c", os.path.join(attacks, name), "-o", objects[-1]])
    attack = os.path.join(folder, "attack")
    run([CROSS + "g++", "-pie", "-Wl,-z,lazy", "-Wl,-rpath," + folder, "-o", attack, *objects, probe, "-lpthread"])
    # Pieces of functions have no names in real programs.
    run([CROSS + "strip", "-w", *(word for pattern in ("g_*", "cp_*", "jop_[der]*", "jop_sy*", "win_middle") for word in ("-N", pattern)), attack])
    common = [CROSS + "g++", "-w", "-std=c++20", os.path.join(SOURCES, "benign/benign.cc")]
    run([*common, "-O1", "-mbranch-protection=standard", "-o", os.path.join(folder, "plain"), "-lpthread", "-ldl"])
    run([*common, "-O2", "-static-pie", "-s", "-o", os.path.join(folder, "static"), "-lpthread", "-ldl"])
    return attack, probe, [f"B{i}" for i in range(1, 21) if i not in (11, 12, 16, 17)]


def guest(build_arm64, folder, attacks, honest, attack, probe):
    out = os.path.join(folder, "out")
    brink, stepper = os.path.join(build_arm64, "brink"), os.path.join(build_arm64, "tests/runtime/cfi/cfi_stepper")
    plain, static = os.path.join(folder, "plain"), os.path.join(folder, "static")
    script = ["export ATTACK_ROUNDS=2"]
    for name in attacks:
        script.append(f"ln -s {attack} /tmp/{name}; timeout 60 /tmp/{name} {name}; echo {name} $? >> /out/status")
        script.append(f"timeout 120 {stepper} /tmp/{name} {name} > /out/{name}.json 2> /out/{name}.err")
    for name in honest:
        program = static if name == "B18" else plain
        for source, options in (("step", "-F 97"), ("walk", "-F 997 --walk-share 0 --walk-budget 100us")):
            script.append(f"timeout 200 {brink} record -q --source {source} {options} -o /out/{name}.{source}.data -- {program} {name} {ROUNDS} > /dev/null 2> /out/{name}.{source}.err; echo {name}.{source} $? >> /out/status")
            jit = "--jit allow" if name == "B10" else ""
            script.append(f"timeout 100 {brink} cfi replay /out/{name}.{source}.data --json --min-severity low {jit} > /out/{name}.{source}.json 2>> /out/{name}.{source}.err")
    words = [os.path.join(ROOT, "tools/vm"), "run", "--kernel", "6.12-arm64", "--memory", "2G", "--timeout", "1100", "--out", out]
    for path in (brink, stepper, attack, probe, plain, static, "/usr/lib/aarch64-linux-gnu/libm.so.6"):
        words += ["--add", path] if os.path.exists(path) else []
    run(words + ["--shell", "\n".join(script) + "\ntrue"])
    return out


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def judge_attacks(out, status, names):
    print("| attack | exact branches | effect |\n|---|---|---|")
    bad = []
    for name in names:
        found = [line for line in lines_of(os.path.join(out, name + ".json")) if line.get("severity", "info") != "info"]
        policies = {line["policy"] for line in found}
        print(f"| {name} | {' '.join(sorted(policies, key=lambda p: int(p[1:]))) or '-'} | {'yes' if status.get(name) == '42' else 'status ' + status.get(name, '?')} |")
        if name not in TOLD and (not set(EXPECTED.get(name, "").split()) <= policies or status.get(name) != "42"):
            bad.append(name)
        if name in MISSED and {line["policy"] for line in found if line["severity"] != "low"}:
            bad.append(name + " (documented as missed)")
    return bad


def judge_honest(out, status, names):
    print("\n| honest program | branches by step | checked | by walk | checked | medium and above |\n|---|---|---|---|---|---|")
    bad = []
    for name in names:
        cells, alarms = [], []
        for source in ("step", "walk"):
            lines = lines_of(os.path.join(out, f"{name}.{source}.json"))
            summary = lines[-1] if lines and str(lines[-1].get("schema", "")).startswith("brink.cfi.summary") else {}
            alarms += [line for line in lines[:-1] if line.get("severity") in ("medium", "high")]
            cells += [summary.get("edges", "-"), summary.get("checked", "-")]
            if status.get(f"{name}.{source}") != "0" or not summary or not summary["edges"]:
                bad.append(f"{name} by {source}: status {status.get(f'{name}.{source}')}, " + open(os.path.join(out, f"{name}.{source}.err"), encoding="utf-8").read()[-300:])
        print(f"| {name} | " + " | ".join(str(c) for c in cells) + f" | {len(alarms)} |")
        for alarm in alarms[:3]:
            print("ALARM " + name + " " + json.dumps(alarm)[:600])
        if alarms:
            bad.append(name)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    theirs = need(arguments.build, "brink", "tests/runtime/cfi/cfi_stepper")
    with tempfile.TemporaryDirectory() as made:
        folder = os.path.abspath(arguments.keep or made)
        os.makedirs(folder, exist_ok=True)
        attack, probe, honest = build(folder)
        attacks = [*EXPECTED, *MISSED, *TOLD]
        if arguments.only:
            attacks, honest = ([n for n in names if n in arguments.only.split(",")] for names in (attacks, honest))
        out = guest(theirs, folder, attacks, honest, attack, probe)
        with open(os.path.join(out, "status"), encoding="utf-8") as file:
            status = dict(line.split() for line in file)
        bad = judge_attacks(out, status, sorted(attacks, key=lambda n: (int("".join(c for c in n[1:] if c.isdigit())), n))) + judge_honest(out, status, honest)
        if bad:
            sys.exit("not as it should be: " + "; ".join(bad))
        print(f"{len(attacks)} attacks, {len(honest)} honest programs: as documented")


if __name__ == "__main__":
    main()
