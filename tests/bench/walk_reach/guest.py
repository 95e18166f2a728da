#!/usr/bin/python3
"""The figures of run.py in a guest of another kernel: interrupt mode on 6.1 and 6.12. The guest's clock counts its
instructions (4 a nanosecond; tools/vm run --counted), so that the walk's budget means work and not the speed of the emulation.

usage: guest.py [--kernel NAME] [--brink BUILD] [--rate HZ] [--scale X] [--record OPTIONS] [--programs LIST]
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


def row(program, path):
    with open(path, encoding="utf-8") as file:
        figures = {key: value for key, value in run.numbers(json.load(file)).items() if key.startswith("walk_")}
    stops = {key[10:]: value for key, value in figures.items() if key.startswith("walk_stop_")}
    samples = sum(stops.values()) or 1
    ends = ", ".join(f"{key} {100 * value / samples:.1f}" for key, value in sorted(stops.items(), key=lambda s: -s[1]) if value and key != "full")
    print(f"{program:10} {samples:6.0f} samples {100 * figures.get('walk_full_share', 0):5.1f} % full, depth {figures.get('walk_mean_depth', 0):5.1f}, "
          f"{figures.get('walk_step_ns', 0):6.1f} ns a step; {ends}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--rate", default="250")
    parser.add_argument("--scale", type=float, default=0.3)
    parser.add_argument("--record", default="--depth 32")
    parser.add_argument("--programs", default="python3,gzip,xz,perl,sort,cc1")
    args = parser.parse_args()
    brink = os.path.abspath(args.brink)
    with tempfile.TemporaryDirectory() as folder:
        names = run.inputs(folder, args.scale)
        added, lines = [brink, folder], []
        for program in args.programs.split(","):
            command = run.PROGRAMS[program][0]
            for key, value in names.items():
                command = [word.replace(key, value) for word in command]
            added += [shutil.which(word) for word in command if shutil.which(word) and os.path.basename(word) not in ("sh", "env")]
            added += needs(program, command)
            lines.append(f"{shlex.quote(brink)} record --source walk {args.record} -F {args.rate} --json=/out/{program}.json -o /tmp/b.data -- "
                         f"{shlex.join(command)} > /dev/null 2> /out/{program}.err || echo {program}: $? $(tail -n 3 /out/{program}.err)")
        out = os.path.join(folder, "out")
        words = [os.path.join(TOP, "tools/vm"), "run", "--kernel", args.kernel, "--counted", "--memory", "2G", "--timeout", "1200", "--out", out]
        done = subprocess.run(words + [word for path in added for word in ("--add", path)] + ["--shell", "\n".join(lines)], check=False)
        if done.returncode:
            sys.exit(done.returncode)
        for program in args.programs.split(","):
            if os.path.exists(os.path.join(out, program + ".json")):
                row(program, os.path.join(out, program + ".json"))


if __name__ == "__main__":
    main()
