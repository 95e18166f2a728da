"""Command line of tools/vm."""

import argparse
import os
import shlex
import shutil
import sys

from vmlib import guest, kernels, lane, lbr

SKIPPED = 77  # what ctest and automake take for "skipped"

_EXAMPLES = """examples:
  tools/vm list
  tools/vm fetch
  tools/vm lane lbr-6.12 --build build
  tools/vm run --kernel 6.1 -- uname -r
  tools/vm run --kernel 6.12 --cpus 2 -- build/tests/bpf_something --gtest_filter='Ring.*'
  tools/vm run --kernel 6.12 --shell 'ls /sys/kernel/btf; dmesg | tail -3'
  tools/vm run --kernel 6.12 --lbr --lbr-params depth=64 --add perf --shell 'perf record -b -o /tmp/p ls; dmesg | tail'
  tools/vm run --kernel 6.12 --out /tmp/got -- build/brink record -o /out/brink.data -- ls
status: that of the command inside; 77 skipped with a reason; 124 no answer in time; 125 the guest died
"""


def _parser():
    parser = argparse.ArgumentParser(prog="tools/vm", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Runs commands under other kernels in emulated guests.", epilog=_EXAMPLES)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="the kernels of the matrix and what they are now")
    fetch = verbs.add_parser("fetch", help="fill the cache, for work without network")
    fetch.add_argument("kernels", nargs="*")
    run = verbs.add_parser("run", help="boot a guest and run a command in it", epilog=_EXAMPLES,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    run.add_argument("--kernel", default="6.12", help="a name of the matrix (default 6.12)")
    run.add_argument("--cpus", type=int, default=1, help="virtual CPUs (default 1)")
    run.add_argument("--memory", default="1G", help="memory of the guest (default 1G)")
    run.add_argument("--timeout", type=int, default=120, help="CPU seconds a virtual CPU until the guest is given up (default 120)")
    run.add_argument("--add", action="append", default=[], metavar="PATH", help="a further file with its libraries, or a folder")
    run.add_argument("--packages", default="", metavar="NAMES", help="packages of the guest's architecture, unpacked into its root; a lane's "
                     "name stands for that lane's")
    run.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    run.add_argument("--lbr", nargs="?", const="plugin", choices=("plugin", "canned"),
                     help="branch hardware: the guest's true branches (default), or what a test feeds to /dev/brink_lbr")
    run.add_argument("--lbr-params", default="", metavar="WORDS", help="module parameters: flavour=amd depth=16 ...")
    run.add_argument("--append", default="", metavar="WORDS", help="more words for the kernel's command line")
    run.add_argument("--counted", action="store_true", help="the guest's clock counts its instructions, 4 a ns: times inside do not depend on the emulation's speed")
    run.add_argument("--out", metavar="DIR", help="bring what the guest leaves in /out here")
    run.add_argument("--shell", metavar="TEXT", help="run this shell text instead of a command")
    run.add_argument("command", nargs="*", metavar="COMMAND")
    lanes = verbs.add_parser("lane", help="run the tree's tests in a guest, as ctest does")
    lanes.add_argument("name", help="a lane of tests/vm/matrix.json: " + " ".join(lane.names()))
    lanes.add_argument("--build", default="build", help="the build folder (default build)")
    return parser


def make_guest(options):
    made = guest.Guest(kernels.find(options.kernel), options.cpus, options.memory, options.timeout)
    for name in options.packages.split():
        made.packages += lane.packages(name) if name in lane.names() else [name]
    made.append, made.out, made.counted = options.append, options.out, options.counted
    made.files += [shutil.which(p) or p for p in options.add]
    if options.lbr:
        lbr.attach(made, options.lbr, options.lbr_params)
    for pair in options.env:
        name, _, value = pair.partition("=")
        made.env[name] = value
    return made


def script_of(options, made):
    """The shell text to run; a command that is a file of this machine comes along."""
    if options.shell:
        return options.shell + "\n"
    words = list(options.command)
    if not words:
        raise SystemExit("vm: what shall run? Give -- COMMAND or --shell TEXT")
    if os.path.sep in words[0]:
        words[0] = os.path.abspath(words[0])
        made.files.append(words[0])
    return "exec " + " ".join(shlex.quote(w) for w in words) + "\n"


def _run(options):
    made = make_guest(options)
    return made.run(script_of(options, made))[0]


def _list():
    for kernel in kernels.matrix()["kernels"]:
        try:
            found = kernels.get(kernel)
            print(f"{kernel['name']:12} {found['release']} ({found['version']})")
        except kernels.Unavailable as reason:
            print(f"{kernel['name']:12} - {reason}")
    return 0


def _fetch(names):
    for kernel in kernels.matrix()["kernels"]:
        if not names or kernel["name"] in names:
            print(f"{kernel['name']:12} {kernels.get(kernel, headers=True)['release']}")
    return 0


def main(words):
    options = _parser().parse_args(words)
    try:
        if options.verb == "list":
            return _list()
        if options.verb == "fetch":
            return _fetch(options.kernels)
        if options.verb == "lane":
            return lane.run(options.name, options.build)
        return _run(options)
    except kernels.Unavailable as reason:
        print(f"vm: skipped: {reason}", file=sys.stderr)
        return SKIPPED
