#!/usr/bin/env python3
"""Recordings cross machines: an arm64 guest records a program by every source that it has; this machine reads the recordings and
exports them, and objdump judges every branch. Then the guest reads a recording of this machine, and says the same as it does here.

usage: arm64_formats_test.py BUILD_FOLDER [FOLDER]     (77: skipped, with the reason)
FOLDER: *.data, the program and texts are there from an earlier run, and no guest is started."""
import collections, glob, os, re, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
CROSS = "aarch64-linux-gnu-"
# Where each source's recording is made; the plugin's records are of user code.
GUEST = """set -e
cd /out
for source in walk hop step lbr; do
  case $source in lbr) event="-e cycles:u" count="-c 200000";; step) event= count="-F 200";; *) event= count="-F 500 --walk-share 2";; esac
  BRINK record --source $source $event $count -o /out/$source.data -- PROGRAM 6000 > /dev/null 2> /out/$source.err || echo "record --source $source: status $?" >> /out/failed
done
BRINK script -i HOST.data -F comm,ip,sym,brstacksym > /out/host.script 2> /out/host.err
BRINK report -i HOST.data > /out/host.report 2>> /out/host.err
BRINK script -i /out/walk.data -F comm,ip,sym,brstacksym > /out/walk.script
BRINK export -q -f bolt -i /out/walk.data -b PROGRAM > /out/walk.bolt
"""
KINDS = {"b": "jump", "bl": "call", "br": "ind_jump", "blr": "ind_call", "ret": "ret"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode == 77:
        skip(done.stderr.strip() or done.stdout.strip())
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def code_of(program):
    """address -> mnemonic and operands, as objdump reads the program."""
    code = {}
    for line in run([CROSS + "objdump", "-d", "--no-show-raw-insn", program]).splitlines():
        match = re.match(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line)
        if match:
            code[int(match[1], 16)] = (match[2], match[3])
    return code


def judge(brink, data, program, code, name):
    """Counts of branches and of straight code that agree with objdump; anything else is an error."""
    said = collections.Counter()
    for line in run([brink, "export", "-q", "-f", "bolt", "-i", data, "-b", program]).splitlines():
        kind, first, second, count = line.split()[:4]
        first, second, count = int(first, 16), int(second, 16), int(count)
        if kind == "B":
            if first in code:
                word, operands = code[first]
                direct = re.search(r"\b([0-9a-f]+) <", operands)
                branch = word.startswith(("b.", "cb", "tb", "ret", "bra", "blra")) or word in KINDS
                assert branch, f"{name}: {first:#x} is no branch: {word} {operands}"
                assert not direct or second in (0, int(direct[1], 16)), f"{name}: {first:#x} {word} {operands} does not go to {second:#x}"
                said["direct" if direct else "indirect"] += count
            else:
                said["from elsewhere"] += count
        else:
            assert first in code and second in code, f"{name}: straight code {first:#x} to {second:#x}"
            inside = [code[a][0] for a in range(first, second, 4)]
            assert not any(w in KINDS for w in inside if w != "bl"), f"{name}: a jump within {first:#x} to {second:#x}"
            assert "bl" not in inside, f"{name}: a call within {first:#x} to {second:#x}"
            said["ranges"] += count
    return said


def listing(brink, data, program, code):
    """Instructions of an annotated function, against objdump's."""
    text = run([brink, "annotate", "-i", data, "--no-source", "--all", "--format", "json", "choose"])
    found = {int(a): t for a, t in re.findall(r'"address":\s*(\d+).*?"text":\s*"([^"]*)"', text)}
    found = found or {int(a, 16): t for a, t in re.findall(r'"address":\s*"0x([0-9a-f]+)".*?"text":\s*"([^"]*)"', text)}
    same = sum(t.split()[0] == code[a][0] for a, t in found.items() if a in code)
    # The same condition has two names: hs and cs, lo and cc; binutils writes what LLVM does not.
    other = [(hex(a), t, code.get(a)) for a, t in found.items() if a in code and t.split()[0].replace("hs", "cs").replace("lo", "cc") != code[a][0].replace("hs", "cs").replace("lo", "cc")]
    print(f"annotate choose: {len(found)} instructions, {same} named as objdump does; others: {other[:5]}")
    assert len(found) > 10 and same >= 0.9 * len(found)


def optimisers(brink, data, program, folder):
    """What the optimisers of this machine make of arm64 profiles."""
    bolt = os.path.join(folder, "walk.preagg")
    with open(bolt, "w") as out:
        out.write(run([brink, "export", "-q", "-f", "bolt", "-i", data, "-b", program]))
    tool = "/usr/lib/llvm-19/bin/perf2bolt"  # it goes by its name: as perf2bolt-19 it would optimise the program
    if os.path.exists(tool):
        done = subprocess.run([tool, "-pa", "-p", bolt, "-o", os.path.join(folder, "walk.fdata"), program], capture_output=True, text=True)
        made = os.path.join(folder, "walk.fdata")
        lines = sum(1 for _ in open(made)) if os.path.exists(made) else 0
        print(f"perf2bolt-19 -pa: status {done.returncode}, {lines} lines of profile; " + "; ".join(re.findall(r"(?:BOLT-INFO|PERF2BOLT): .*?(?:mismatch|ignored|out of range|invalid)[^\n]*", done.stdout + done.stderr)[:4]))
        assert done.returncode == 0 and lines > 20, done.stdout[-1500:] + done.stderr[-1500:]
    tool = shutil.which("llvm-profgen-19")
    if tool:
        counts = os.path.join(folder, "walk.unsymbolized")
        with open(counts, "w") as out:
            out.write(run([brink, "export", "-q", "-f", "profgen-unsymbolized", "-i", data, "-b", program]))
        made = os.path.join(folder, "walk.prof")
        done = subprocess.run([tool, f"--unsymbolized-profile={counts}", f"--binary={program}", "-o", made, "--format=text"], capture_output=True, text=True)
        text = open(made).read() if os.path.exists(made) else ""
        print(f"llvm-profgen-19: status {done.returncode}; {(done.stderr.strip().splitlines() or [''])[-1]}; {len(text.splitlines())} lines")
        # A release that does not know the target says so; then the form is what was judged above, address by address.
        assert (done.returncode == 0 and "choose" in text) or "nsupported" in done.stderr or "arget" in done.stderr, done.stderr[-1500:]


def main():
    build = os.path.abspath(sys.argv[1])
    brink, theirs = os.path.join(build, "brink"), os.path.join(os.path.dirname(build), "build-arm64", "brink")
    if not os.environ.get("BRINK_LONG") and len(sys.argv) < 3:
        skip("a long lane: tools/test --long, or BRINK_LONG=1")
    if not shutil.which(CROSS + "gcc") or not os.path.exists(theirs):
        skip("no cross compiler, or no build-arm64/brink (tools/setup --arm64; cmake --preset arm64)")
    with tempfile.TemporaryDirectory() as made:
        folder = sys.argv[2] if len(sys.argv) > 2 else made
        program = os.path.join(folder, "arm64_workload")
        if len(sys.argv) < 3 or not os.path.exists(os.path.join(folder, "walk.data")):
            os.makedirs(folder, exist_ok=True)
            run([CROSS + "gcc", "-O2", "-g", "-static", "-Wl,--emit-relocs", "-Wl,--build-id", "-o", program, os.path.join(ROOT, "tests/vm/guest/arm64_workload.c")])
            host = os.path.join(folder, "host")
            run(["gcc", "-O2", "-g", "-static", "-Wl,--build-id", "-o", host, os.path.join(ROOT, "tests/vm/guest/arm64_workload.c")])
            run([brink, "record", "-q", "--source", "walk", "-F", "2000", "--walk-share", "2", "-o", host + ".data", "--", host, "30000"])
            script = GUEST.replace("BRINK", theirs).replace("PROGRAM", program).replace("HOST", host)
            words = [os.path.join(ROOT, "tools/vm"), "run", "--kernel", "6.12-arm64", "--lbr", "--timeout", "400", "--out", folder, "--shell", script]
            for path in (theirs, program, host, host + ".data"):
                words += ["--add", path]
            run(words)
        if os.path.exists(os.path.join(folder, "failed")):
            sys.exit(open(os.path.join(folder, "failed")).read() + "".join(open(f).read() for f in glob.glob(folder + "/*.err")))
        code = code_of(program)
        for source in ("walk", "hop", "step", "lbr"):
            said = judge(brink, os.path.join(folder, source + ".data"), program, code, source)
            print(f"{source}: {dict(said)}")
            assert said["direct"] > 50 and said["indirect"] > 10 and said["ranges"] > 50, source
        walk = os.path.join(folder, "walk.data")
        names = run([brink, "report", "-i", walk])
        for name in ("sieve", "ackermann", "choose", "compare"):
            assert name in names, f"report does not name {name}:\n{names[:1500]}"
        listing(brink, walk, program, code)
        optimisers(brink, walk, program, folder)
        # The same recording says the same on both machines.
        here = run([brink, "script", "-i", walk, "-F", "comm,ip,sym,brstacksym"])
        there = open(os.path.join(folder, "walk.script")).read()
        assert here == there, "script of the guest's recording differs"
        assert run([brink, "export", "-q", "-f", "bolt", "-i", walk, "-b", program]) == open(os.path.join(folder, "walk.bolt")).read(), "export differs"
        host = os.path.join(folder, "host.data")
        assert run([brink, "script", "-i", host, "-F", "comm,ip,sym,brstacksym"]) == open(os.path.join(folder, "host.script")).read(), "script of this machine's recording differs there"
        print(f"{len(here.splitlines())} lines of the guest's recording and {sum(1 for _ in open(os.path.join(folder, 'host.script')))} of this machine's are the same on both")


main()
