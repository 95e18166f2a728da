#!/usr/bin/env python3
"""Profiles of a real kernel: branches of a 6.12 guest's kernel (KASLR on, the plugin's true records), exported for a vmlinux at
its link-time addresses, judged instruction by instruction by objdump.

usage: kernel_profile_test.py BUILD_FOLDER [FOLDER]     (77: skipped, with the reason)
FOLDER: the guest's kernel.data and kallsyms are there from an earlier run, and no guest is started."""
import collections, os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
WORK = """cat /proc/kallsyms > /out/kallsyms
%s record -a -e cycles -c 20011 --source lbr -o /out/kernel.data -- sh -c '
  find /sys/devices /proc/sys > /dev/null; cat /proc/[0-9]*/maps > /dev/null; dd if=/dev/zero of=/tmp/x bs=4k count=300 2> /dev/null'
"""
# Text that the running kernel has changed: returns and indirect calls through thunks, static branches, alternatives.
THUNK = re.compile(r"<__x86_(return|indirect)_thunk|<__x86_indirect_(call|jump)_thunk|<srso_|<retbleed_")
BRANCH = re.compile(r"(j|call|ret|loop|syscall|sysret|iret)")


def run(words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode not in (0, 77):
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def image():
    """The guest's packed kernel: what `tools/vm fetch` has unpacked."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "brink", "vm")
    found = sorted(os.path.join(cache, d, "image", "boot", f) for d in os.listdir(cache) if d.startswith("6.12") and "-cloud-amd64_" in d
                   for f in os.listdir(os.path.join(cache, d, "image", "boot")) if f.startswith("vmlinuz"))
    return found[-1]


def instructions(vmlinux, wanted):
    found = {}
    lines = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", "-j", ".text", vmlinux], stdout=subprocess.PIPE, text=True)
    shape = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
    for line in lines.stdout:
        match = shape.match(line)
        if match and int(match[1], 16) in wanted:
            found[int(match[1], 16)] = match[2]
    return found


def judge(text, branches, code):
    """Executions of branches by how the image's code agrees."""
    said = collections.Counter()
    for (source, target), count in branches.items():
        if not text[0] <= source < text[1]:
            said["from elsewhere"] += count
        elif source not in code:
            said["NO INSTRUCTION"] += count
        elif THUNK.search(code[source]):
            said["return or indirect"] += count
        else:
            words = code[source].replace("notrack ", "").replace("bnd ", "").split()
            direct = len(words) > 1 and re.fullmatch("[0-9a-f]{16}", words[1])
            if not BRANCH.match(words[0]):
                said["patched"] += count
            elif not direct:
                said["return or indirect"] += count
            else:
                said["direct" if int(words[1], 16) == target or target == 0 else "patched"] += count
    return said


def main():
    build = os.path.abspath(sys.argv[1])
    brink = os.path.join(build, "brink")
    with tempfile.TemporaryDirectory() as made:
        folder = sys.argv[2] if len(sys.argv) > 2 else made
        guest = None if len(sys.argv) > 2 else run([os.path.join(ROOT, "tools", "vm"), "run", "--kernel", "6.12", "--cpus", "1", "--lbr", "--timeout", "600", "--out", folder, "--add", brink, "--shell", WORK % brink])
        if guest and guest.returncode == 77:
            print(guest.stdout + guest.stderr)
            sys.exit(77)
        vmlinux, data = os.path.join(folder, "vmlinux"), os.path.join(folder, "kernel.data")
        run([sys.executable, os.path.join(HERE, "make_vmlinux.py"), image(), os.path.join(folder, "kallsyms"), vmlinux])
        symbols = dict((name, int(address, 16)) for address, name in re.findall(r"^([0-9a-f]+) [Tt] (_text|_etext)$", run(["nm", vmlinux]).stdout, re.M))
        with open(os.path.join(folder, "kallsyms")) as file:
            ran_at = int(next(line for line in file if line.endswith(" _text\n")).split()[0], 16)
        slide, text = ran_at - symbols["_text"], (symbols["_text"], symbols["_etext"])
        assert slide != 0, "the guest's kernel stands where it was linked: this test needs KASLR"

        def export(form):
            return run([brink, "export", "-q", "-f", form, "-i", data, "-b", vmlinux]).stdout.splitlines()

        branches, ranges = {}, {}
        for line in export("bolt"):
            kind, first, second, count = line.split()[:4]
            (branches if kind == "B" else ranges).setdefault((int(first, 16), int(second, 16)), 0)
            (branches if kind == "B" else ranges)[int(first, 16), int(second, 16)] += int(count)
        code = instructions(vmlinux, {a for pair in [*branches, *ranges] for a in pair})
        said = judge(text, branches, code)
        total, ends = sum(said.values()), sum(n for (_, end), n in ranges.items() if end in code or not text[0] <= end < text[1])
        print(f"slide {slide:#x}; {total} executions of {len(branches)} branches: {dict(said)}; {sum(ranges.values())} ranges, {ends} end at an instruction")
        assert total > 10000, "hardly anything was recorded in the kernel"
        assert said["NO INSTRUCTION"] == 0 and ends == sum(ranges.values())
        assert said["patched"] <= total * 0.1, "the rest is text that the kernel changes itself"

        # The other forms say the same in their own addresses.
        form = re.compile(r"^([0-9a-f]+)(->|-)([0-9a-f]+):(\d+)$")
        for name, base in (("profgen-unsymbolized", text[0]), ("autofdo", None)):
            rows = [form.match(line) for line in export(name)]
            if base is None:
                segment = re.search(r"LOAD\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+).*\n.*R E", run(["readelf", "-l", vmlinux]).stdout)
                base = int(segment[2], 16) - int(segment[1], 16)
            got = {(int(m[1], 16) + base, int(m[3], 16) + base): int(m[4]) for m in rows if m and m[2] == "-"}
            assert got == ranges, name
        stacks = "\n".join(export("profgen"))
        pairs = {(int(a, 16), int(b, 16)) for a, b in re.findall(r"0x([0-9a-f]+)/0x([0-9a-f]+)/", stacks)}
        inside = {pair for pair in branches if pair[0] and pair[1]}
        assert inside <= pairs, "profgen's stacks hold every branch within the kernel"


main()
