"""A lane: one guest that runs a set of the tree's test programs and reports each, in TAP."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

from vmlib import guest, kernels, lbr

# Runs one program; keeps the log short unless it fails, but shows why what was skipped was skipped.
_RUNNER = r"""
number=0; bad=0
one() { # name seconds command...
  name=$1; limit=$2; shift 2
  number=$((number + 1)); begin=$(cut -d. -f1 /proc/uptime)
  timeout "$limit" "$@" > /vm/log 2>&1; status=$?
  took=$(($(cut -d. -f1 /proc/uptime) - begin))
  if [ $status = 0 ]; then echo "ok $number - $name ($took s)"; else echo "not ok $number - $name (status $status, $took s)"; bad=1; fi
  if [ $status = 0 ]; then
    grep -E '^(\[  PASSED|\[  SKIPPED \] .* test)|^\|' /vm/log | sed 's/^/#   /'
    awk 'skipped { print "#   skipped: " $0; skipped = 0 } /: Skipped$/ { skipped = 1 }' /vm/log | sort | uniq -c
  else
    sed 's/^/#   /' /vm/log
    dmesg | tail -5 | sed 's/^/#   dmesg: /'
  fi
}
"""


def names():
    return [lane["name"] for lane in kernels.matrix()["lanes"]]


def _find(name):
    for lane in kernels.matrix()["lanes"]:
        if lane["name"] == name:
            return lane
    raise SystemExit(f"vm: no lane {name!r}; there are: {' '.join(names())}")


def packages(name):
    return _find(name).get("packages", [])


def _tree(kernel, build):
    """The build folder for that kernel's architecture: another's has its name behind."""
    if kernel["arch"] == kernels.host_arch():
        return build
    tree = f"{os.path.join(os.path.dirname(build), 'build')}-{kernel['arch']}"
    if not os.path.exists(os.path.join(tree, "build.ninja")):
        raise kernels.Unavailable(f"no {tree}: cmake --preset {kernel['arch']} and build it first")
    return tree


class _Test:
    def __init__(self, description):
        properties = {p["name"]: p["value"] for p in description.get("properties", [])}
        self.name = description["name"]
        self.command = description.get("command", [])
        self.labels = properties.get("LABELS", [])
        self.environment = properties.get("ENVIRONMENT", [])
        self.timeout = int(properties.get("TIMEOUT", 120))


def _tests(build):
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True)
    if listing.returncode:
        raise SystemExit(f"vm: {build}: {listing.stderr.strip()}")
    return {t["name"]: _Test(t) for t in json.loads(listing.stdout)["tests"]}


def _of_labels(lane, tests, build):
    """The rings of a lane. Another machine's tree is seldom whole, and scripts run tools of this machine: both are told."""
    foreign = kernels.find(lane["kernel"])["arch"] != kernels.host_arch()
    out = []
    for test in tests.values():
        if not set(test.labels) & set(lane.get("labels", [])) or test.name in lane.get("without", []):
            continue
        if foreign and not test.command:
            print(f"# {test.name}: not run: not built")
        elif foreign and not test.command[0].startswith(build + os.path.sep):
            print(f"# {test.name}: not run: a script for the machine that builds")
        else:
            out.append(test)
    return out


def _chosen(lane, build):
    """(name, seconds, command, environment) of what the lane runs."""
    tests = _tests(build)
    for name in lane.get("tests", []):
        if name not in tests:
            raise SystemExit(f"vm: lane {lane['name']} names {name}, which ctest does not know")
    chosen = [tests[name] for name in lane.get("tests", [])]
    chosen += [test for test in _of_labels(lane, tests, build) if test not in chosen]
    for test in chosen:
        if not test.command:
            raise SystemExit(f"vm: {test.name} of lane {lane['name']} is not built in {build}")
    # Emulated code is slower than the machine's by an order of magnitude, and the machine may have other work: these only
    # name what hangs; the guest itself is bounded in CPU time.
    result = [(t.name, 8 * t.timeout, t.command, t.environment) for t in chosen]
    for name in lane.get("guest", []):
        result.append((name, 960, [os.path.join(build, "tests/vm/guest", name)],
                       ["BRINK_BINARY=" + os.path.join(build, "brink")]))
    for path in lane.get("scripts", []):
        result.append((os.path.basename(path), 960, [os.path.join(kernels.ROOT, path)], ["BRINK_BINARY=" + os.path.join(build, "brink")]))
    return result


def _left_out(test, kernel):
    """GoogleTest's filter for one program: all but what matrix.json leaves out, which is printed with its reason."""
    rows = [row for row in kernels.matrix()["leave_out"] if row["test"] == test and row.get("kernel", kernel) == kernel]
    for row in rows:
        print(f"# {test}: without {row['cases']}: {row['why']}")
    return "*-" + ":".join(row["cases"] for row in rows) if rows else "*"


def _beside(program):
    """Other programs of its folder: what a test starts."""
    folder = os.path.dirname(program)
    return [entry.path for entry in os.scandir(folder) if entry.is_file() and os.access(entry.path, os.X_OK) and entry.path != program]


def run(name, build):
    lane = _find(name)
    if lane.get("long") and not os.environ.get("BRINK_LONG"):
        raise kernels.Unavailable("a long lane: tools/test --long, or BRINK_LONG=1")
    kernel = kernels.find(lane["kernel"])
    build = _tree(kernel, os.path.abspath(build))
    made = guest.Guest(kernel, lane.get("cpus", 1), lane.get("memory", "1G"), timeout=lane.get("seconds", 600))
    made.packages = lane.get("packages", [])
    made.counted = lane.get("counted", False)
    made.stream = None
    if "lbr" in lane:
        lbr.attach(made, lane["lbr"], lane.get("params", ""))
    if kernel["arch"] == kernels.host_arch():
        made.files += [shutil.which(p) for p in kernels.matrix()["programs"] if shutil.which(p)]
    made.files += [os.path.join(build, path) for path in lane.get("files", [])]
    made.files += [os.path.join(kernels.ROOT, path) for path in lane.get("sources", [])]
    script = [_RUNNER, "export BRINK_EMULATED=1"]  # tests with large sets take small ones
    script += [f"export {key}={shlex.quote(value)}" for key, value in lane.get("env", {}).items()]
    chosen = _chosen(lane, build)
    if not chosen:
        raise kernels.Unavailable("this tree has no test for the lane")
    for label, limit, command, environment in chosen:
        made.files.append(command[0])
        made.files += _beside(command[0]) if lane.get("beside") else []
        for pair in environment:
            key, _, value = pair.partition("=")
            if key == "BRINK_BINARY":
                made.files.append(value)
            script.append(f"export {key}={shlex.quote(value)}")
        script.append(f"export GTEST_FILTER={shlex.quote(_left_out(label, lane['kernel']))}")
        script.append(f"one {shlex.quote(label)} {limit} " + " ".join(shlex.quote(w) for w in command))
    script.append(f'echo "1..{len(chosen)}"; exit $bad')
    begin = time.monotonic()
    status, text = made.run("\n".join(script) + "\n")
    print(f"# lane {name}: kernel {kernels.get(made.kernel)['release']}, {lane.get('lbr', 'no')} branch hardware, "
          f"{time.monotonic() - begin:.0f} s")
    print(text, end="")
    answered = len(re.findall(r"^(?:not )?ok \d", text, re.M))
    if answered != len(chosen):
        print(f"vm: {answered} of {len(chosen)} programs answered", file=sys.stderr)
        return status or 1
    return status
