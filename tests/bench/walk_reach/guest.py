#!/usr/bin/python3
"""The figures of run.py in a guest of another kernel: interrupt mode on 6.1 and 6.12. The guest's clock counts its
instructions (4 a nanosecond, on arm64 1; tools/vm run --counted), so that the walk's budget means work and not the speed of the
emulation. --sources: what a program takes under each source, over what it takes alone, in the same guest.

usage: guest.py [--kernel NAME] [--brink BUILD] [--rate HZ] [--scale X] [--record OPTIONS] [--programs LIST] [--c FILE] [--sources LIST]
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
# What a program loads besides its libraries.
FOLDERS = {"python3": ["json", "re", "collections", "encodings", "random.py", "bisect.py", "hashlib.py", "operator.py", "keyword.py",
                       "reprlib.py", "heapq.py", "functools.py", "types.py", "enum.py", "copyreg.py", "warnings.py", "os.py", "stat.py",
                       "posixpath.py", "genericpath.py", "_collections_abc.py", "abc.py", "codecs.py", "io.py", "site.py",
                       "_sitebuiltins.py", "contextlib.py", "_weakrefset.py", "weakref.py", "lib-dynload"]}


def needs(program, command):
    """Files and folders that the guest gets for the program."""
    if program == "python3":
        prefix = subprocess.run([command[0], "-c", "import os; print(os.path.dirname(os.__file__))"], capture_output=True, text=True, check=True).stdout.strip()
        return [os.path.join(prefix, name) for name in FOLDERS["python3"]]
    if program == "sort":
        return ["/usr/lib/locale/C.utf8"]
    return []


def preprocessed(source, folder):
    """For a guest without header files."""
    path = os.path.join(folder, "preprocessed.i")
    subprocess.run(["gcc", "-E", source, "-o", path], check=True)
    return path


def row(program, path):
    with open(path, encoding="utf-8") as file:
        figures = {key: value for key, value in run.numbers(json.load(file)).items() if key.startswith("walk_")}
    stops = {key[10:]: value for key, value in figures.items() if key.startswith("walk_stop_")}
    samples = sum(stops.values()) or 1
    ends = ", ".join(f"{key} {100 * value / samples:.1f}" for key, value in sorted(stops.items(), key=lambda s: -s[1]) if value and key != "full")
    print(f"{program:10} {samples:6.0f} samples {100 * figures.get('walk_full_share', 0):5.1f} % full, depth {figures.get('walk_mean_depth', 0):5.1f}, "
          f"{figures.get('walk_step_ns', 0):6.1f} ns a step, full stack {figures.get('walk_full_median_ns', 0) / 1000:5.1f} us; {ends}", flush=True)


def at_home(command):
    """The command in the guest of another machine, whose programs are unpacked packages."""
    words = ["/usr/lib/gcc/aarch64-linux-gnu/12/cc1" if os.path.basename(word) == "cc1" else word for word in command]
    if "-imultiarch" in words:
        at = words.index("-imultiarch")
        del words[at:at + 2]
    return words


def timed(brink, source, rate, command):
    """Shell words: what the program takes by the guest's clock, into /out/PROGRAM.times."""
    run_it = shlex.join(command) if source == "alone" else f"{shlex.quote(brink)} record -q --source {source} -F {rate} -o /tmp/b.data -- {shlex.join(command)}"
    return f"begin=$(cut -d' ' -f1 /proc/uptime); {run_it} > /dev/null 2>&1; echo {source} $? $begin $(cut -d' ' -f1 /proc/uptime)"


def ratios(program, path):
    took = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            source, status, begin, end = line.split()
            took[source] = (float(end) - float(begin), status)
    print(f"{program:10} " + ", ".join(f"{source} {seconds / max(0.01, took['alone'][0]):.2f} x" + (f" (status {status})" if status != "0" else "") for source, (seconds, status) in took.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--brink")
    parser.add_argument("--rate", default="250")
    parser.add_argument("--scale", type=float, default=0.3)
    parser.add_argument("--record", default="--depth 32")
    parser.add_argument("--programs", default="python3,gzip,xz,perl,sort,cc1,node")
    parser.add_argument("--c", help="what cc1 compiles, as in run.py")
    parser.add_argument("--sources", default="", help="for instance walk,hop,step")
    args = parser.parse_args()
    foreign = args.kernel.endswith("-arm64")
    brink = os.path.abspath(args.brink or ("build-arm64/brink" if foreign else "build/brink"))
    with tempfile.TemporaryDirectory() as folder:
        names = run.inputs(folder, args.scale)
        names["@C@"] = args.c or names["@C@"]
        if not foreign:
            names["@C@"] = preprocessed(names["@C@"], folder)
        added, lines = [brink, folder], []
        for program in args.programs.split(","):
            command = run.PROGRAMS[program][0]
            for key, value in names.items():
                command = [word.replace(key, value) for word in command]
            if foreign:
                command = at_home(command)
            else:
                added += [shutil.which(word) for word in command if shutil.which(word) and os.path.basename(word) not in ("sh", "env")]
                added += needs(program, command)
            for source in ["alone", *args.sources.split(",")] if args.sources else []:
                lines.append(timed(brink, source, args.rate, command) + f" >> /out/{program}.times")
            lines.append(f"{shlex.quote(brink)} record --source walk {args.record} -F {args.rate} --json=/out/{program}.json -o /tmp/b.data -- "
                         f"{shlex.join(command)} > /dev/null 2> /out/{program}.err || echo {program}: $? $(tail -n 3 /out/{program}.err)")
        out = os.path.join(folder, "out")
        words = [os.path.join(TOP, "tools/vm"), "run", "--kernel", args.kernel, "--counted", "--memory", "2G", "--timeout", "1200", "--out", out]
        words += ["--packages", "arm64-fidelity"] if foreign else []
        done = subprocess.run(words + [word for path in added for word in ("--add", path)] + ["--shell", "\n".join(lines)], check=False)
        if done.returncode:
            sys.exit(done.returncode)
        for program in args.programs.split(","):
            if os.path.exists(os.path.join(out, program + ".json")):
                row(program, os.path.join(out, program + ".json"))
            if os.path.exists(os.path.join(out, program + ".times")):
                ratios(program, os.path.join(out, program + ".times"))


if __name__ == "__main__":
    main()
