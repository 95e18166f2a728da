#!/usr/bin/env python3
"""Walks of foreign programs in an arm64 guest against single step: enough windows of enough programs, and none wrong. A guest has a
share of the work, results go to a ledger, and a ledger that is given is taken up again.

usage: arm64_fidelity_test.py BUILD_FOLDER [--ledger FILE] [--windows N] [--minutes N] [--guests N] [--modes irq,host] [--programs LIST]
(0: as many windows as wanted, none wrong; 1: some wrong; 3: not yet so many; 77: skipped, with the reason)"""
import argparse
import collections
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PROGRAMS = "python3,perl,gzip,xz,bzip2,sort,cc1,awk,sed,openssl,sqlite3,exceptions,busybox"


def sums(path):
    """(set, program) -> counts; lines that were cut are left out, as the tool does."""
    found = collections.defaultdict(collections.Counter)
    if not os.path.exists(path):
        return found
    with open(path, encoding="utf-8") as ledger:
        for line in ledger:
            words = dict(word.rsplit("=", 1) for word in line.split() if "=" in word)
            if words.pop("end", None):
                key = words.pop("set").replace("/", " "), words.pop("program")
                found[key].update({name: int(value) for name, value in words.items()})
    return found


def table(found):
    print("| walk | program | windows | full | half or more | shortened | disturbed | wrong | mean depth |\n|---|---|---|---|---|---|---|---|---|")
    rows = list(found.items())
    for way in sorted({way for way, _ in found}):
        rows.append(((way, "all"), sum((c for (other, _), c in found.items() if other == way), collections.Counter())))
    for (way, program), c in rows:
        windows = max(1, c["windows"])
        print(f"| {way} | {program} | {c['windows']} | {100 * c['full'] / windows:.1f} % | {100 * c['half'] / windows:.1f} % | {c['shortened']} | {c['disturbed']} | {c['wrong']} | {c['branches'] / windows:.1f} |")


def guest(arguments, tree, ledger):
    """One guest's share. What it says of the ledger is kept as it says it: a guest that is ended loses one turn."""
    tool, throwing = (os.path.join(tree, "tests/runtime/fidelity", name) for name in ("fidelity", "fidelity_throwing"))
    programs, modes = arguments.programs.split(","), arguments.modes.split(",")
    share = arguments.minutes * 60 / (len(programs) * len(modes))
    each = math.ceil(1.3 * arguments.windows / (len(programs) * len(modes)))  # some programs end before they have given so many
    # The guest's clock counts instructions: a walk's budget is work then, and no other load takes it away.
    words = [os.path.join(ROOT, "tools/vm"), "run", "--kernel", "6.12-arm64", "--counted", "--memory", "2G", "--timeout", str(int(arguments.minutes * 600) + 600),
             "--packages", "arm64-fidelity", "--env", "BRINK_EMULATED=1", "--add", tool, "--add", throwing]
    script = ["[ ! -x /usr/bin/gawk ] || ln -sf gawk /usr/bin/awk  # without its package's script that is an applet of busybox", ": > /tmp/ledger", "turn() {", "  lines=$(wc -l < /tmp/ledger)",
              f"  {tool} --mode $1 --alone --windows $3 --seconds {share:.1f} --ledger /tmp/ledger $2 > /tmp/said 2>&1 || {{ echo $1 $2: status $?; tail -n 5 /tmp/said; }}",
              "  grep -A12 WRONG /tmp/said", "  tail -n +$((lines + 1)) /tmp/ledger | sed 's/^/LEDGER /'", "}"]
    # Those that have least come first, should time not do for all.
    have = sums(ledger)
    turns = sorted((have.get((f"{mode} alone depth-32", program), {}).get("windows", 0), program, mode) for program in programs for mode in modes)
    script += [f"turn {mode} {program} {each - windows}" for windows, program, mode in turns if windows < each]
    with subprocess.Popen(words + ["--shell", "\n".join(script) + "\ntrue"], stdout=subprocess.PIPE, text=True) as running, open(ledger, "a", encoding="utf-8") as kept:
        for line in running.stdout:
            if line.startswith("LEDGER "):
                kept.write(line[7:])
                kept.flush()
            else:
                print(line, end="", flush=True)
    if running.returncode == 77:
        sys.exit(77)
    if running.returncode:
        print(f"the guest ended with status {running.returncode}; what it has said of windows counts", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--ledger")
    parser.add_argument("--windows", type=int, default=5000, help="over all programs and modes")
    parser.add_argument("--minutes", type=float, default=2.6, help="of a guest's own time, which counts instructions, 1 a ns")
    parser.add_argument("--guests", type=int, default=6)
    parser.add_argument("--modes", default="irq,host", help="who walks: the kernel's program in the sampling interrupt, the host build")
    parser.add_argument("--programs", default=PROGRAMS)
    arguments = parser.parse_args()
    tree = os.path.join(os.path.dirname(os.path.abspath(arguments.build)), "build-arm64")
    if not os.environ.get("BRINK_LONG"):
        print("skipped: a long set: tools/test --long, or BRINK_LONG=1")
        return 77
    if not os.path.exists(os.path.join(tree, "tests/runtime/fidelity/fidelity")):
        print("skipped: no build-arm64/tests/runtime/fidelity/fidelity (cmake --preset arm64; ninja -C build-arm64 fidelity)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        ledger = os.path.abspath(arguments.ledger or os.path.join(folder, "ledger"))
        for _ in range(arguments.guests):
            if sum(c["windows"] for c in sums(ledger).values()) >= arguments.windows:
                break
            guest(arguments, tree, ledger)
        found = sums(ledger)
        table(found)
        windows, wrong = sum(c["windows"] for c in found.values()), sum(c["wrong"] for c in found.values())
        programs = {program for (_, program), c in found.items() if c["windows"]}
        print(f"{windows} windows of {len(programs)} programs, {wrong} wrong")
        if wrong:
            return 1
        return 0 if windows >= arguments.windows and len(programs) >= 8 else 3


sys.exit(main())
