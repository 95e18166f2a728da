"""One QEMU run: boots a kernel on an image, streams what the guest says, returns its status."""

import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

from vmlib import image, kernels, tsc

TIMED_OUT = 124
# A CPU whose clock counts instructions: 4 in a nanosecond, as the kernel is told (the emulator advances its counter by one each).
_COUNTED = ["-icount", "shift=0,sleep=off"]
_COUNTED_KHZ = 4000000
NO_RESULT = 125


def _locked(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


@contextlib.contextmanager
def _places(wanted):
    """Holds one place for each virtual CPU while a guest runs: emulation uses a whole core for each, so that guests of
    all checkouts together have no more than this machine has cores. Taken one guest after the other, lest two wait for each other."""
    places = os.cpu_count() or 1
    with contextlib.ExitStack() as held:
        with open(os.path.join(kernels.cache_dir(), ".guest"), "w", encoding="utf-8") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            taken = set()
            while len(taken) < min(wanted, places):
                for number in set(range(places)) - taken:
                    place = held.enter_context(open(os.path.join(kernels.cache_dir(), f".guest{number}"), "w", encoding="utf-8"))
                    if len(taken) < wanted and _locked(place):
                        taken.add(number)
                    else:
                        place.close()
                if len(taken) < min(wanted, places):
                    time.sleep(0.5)
        yield


class Guest:
    """What to boot. Fill the lists, then run()."""

    def __init__(self, kernel, cpus=1, memory="1G", timeout=120):
        self.kernel = kernel
        self.arch = kernels.matrix()["arch"][kernel["arch"]]
        self.cpus = cpus
        self.memory = memory
        self.timeout = timeout
        self.begun = False  # whether our script started in a guest that gave no answer
        self.packages = []  # of the guest's architecture, unpacked over its root
        self.files = []    # paths of this machine, with their libraries
        self.modules = []  # (path of a .ko, parameters)
        self.env = {}
        self.plugin = None  # QEMU plugin that keeps the branch records
        self.out = None    # folder that receives what the guest left in /out
        self.append = ""
        self.counted = False  # the guest's clock counts its instructions (4 a ns), however slow the emulation
        self.stream = sys.stdout

    def run(self, script):
        """Runs the shell text inside. Returns (status, output); TIMED_OUT and NO_RESULT come with the console."""
        if not shutil.which(self.arch["qemu"]):
            raise kernels.Unavailable(f"no {self.arch['qemu']} (tools/setup --test)")
        if self.out and self.kernel["root"] == "initramfs":
            raise SystemExit(f"vm: --out needs a disk, and {self.kernel['name']} has no driver for one built in")
        found = kernels.get(self.kernel)
        work = tempfile.mkdtemp(prefix="brink-vm-")
        try:
            return self._run(work, found, script)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _image(self, work, script):
        root = image.Root(os.path.join(work, "root"), self.kernel["arch"])
        if self.packages:
            root.overlay(kernels.packages(self.packages, self.kernel["arch"]))
        for path in self.files:
            root.add(path)
        for path, parameters in self.modules:
            name = os.path.basename(path)
            shutil.copy(path, root.path("vm/modules/" + name))
            root.write(f"vm/modules/{name[:-3]}.params", parameters)
        if self.out:
            os.makedirs(root.path("out"))
        root.finish(self.arch["result"], script, self.env)
        if self.kernel["root"] == "initramfs":
            path = os.path.join(work, "initramfs")
            image.make_initramfs(root, path)
            return ["-initrd", path], "rdinit=/init"
        path = os.path.join(work, "disk")
        (image.make_disk if self.out else image.make_ext4)(root, path)
        return (["-drive", f"file={path},format=raw,if=none,id=disk,snapshot=on", "-device", "nvme,id=nvme,serial=disk", "-device", "nvme-ns,drive=disk,bus=nvme,nsid=1"],
                f"root={'PARTUUID=' + image.PARTITION if self.out else '/dev/nvme0n1'} rw rootfstype=ext4 init=/init")

    def _run(self, work, found, script):
        drive, append = self._image(work, script)
        if self.out:
            tar = os.path.join(work, "out.tar")
            with open(tar, "wb") as file:
                file.truncate(512 << 20)
            drive += ["-drive", f"file={tar},format=raw,if=none,id=out", "-device", "nvme-ns,drive=out,bus=nvme,nsid=2"]
        if self.plugin:
            bar = os.path.join(work, "bar")
            with open(bar, "wb") as file:
                file.truncate(1 << 20)
            drive += ["-object", f"memory-backend-file,id=bar,size=1M,share=on,mem-path={bar}", "-device",
                      "ivshmem-plain,memdev=bar", "-plugin", f"{self.plugin},bar={bar}"]
        frequency = (_COUNTED_KHZ if self.counted else tsc.khz()) if self.kernel["arch"] == "amd64" else None
        words = [f"tsc_early_khz={frequency}" if frequency else "", f"console={self.arch['console']}", "panic=-1", "quiet", "loglevel=4", self.arch["append"],
                 self.kernel["append"], append, self.append]
        result, console = os.path.join(work, "result"), os.path.join(work, "console")
        serial = ["-serial", f"file:{result}"]
        if self.arch["console"] not in self.arch["result"]:
            serial = ["-serial", f"file:{console}"] + serial
        command = [self.arch["qemu"], *self.arch["machine"], "-accel", "tcg", *(_COUNTED if self.counted else []), "-smp", str(self.cpus), "-m", self.memory, "-display", "none", "-nodefaults",
                   "-nic", "none", "-no-reboot", *serial, "-kernel",
                   found["vmlinuz"], "-append", " ".join(w for w in words if w), *drive]
        # Two emulated CPUs now and then see the kernel patch its own code half done, and it dies ("Oops: int3"): at boot,
        # or where tracepoints are attached to. What has begun our work is begun again for no other reason, and only where
        # nothing of it was shown yet.
        for boot in range(3):
            for path in (result, console):
                open(path, "wb").close()
            with _places(self.cpus):
                status, text = self._wait(command, result, console)
            half_patched = self.cpus > 1 and not self.stream and self._says(console, "Oops: int3")
            if status != NO_RESULT or boot == 2 or (self.begun and not half_patched):
                break
            print(f"vm: {self.kernel['name']}: died {'of half patched code' if half_patched else 'at boot'}, is booted again", file=sys.stderr)
        if self.out and status not in (TIMED_OUT, NO_RESULT):
            os.makedirs(self.out, exist_ok=True)
            with tarfile.open(tar, "r:") as archive:
                archive.extractall(self.out)
        return status, text

    @staticmethod
    def _says(console, words):
        with open(console, encoding="utf-8", errors="replace") as file:
            return words in file.read()

    def _over(self, pid, begin):
        """Whether the guest has had its time: in CPU seconds of the emulator, since the machine may have other work, and
        in a generous multiple of it by the clock, since a guest that hangs may be idle."""
        if time.monotonic() - begin > 6 * self.timeout:
            return True
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return False
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > self.timeout * self.cpus

    def _wait(self, command, result, console):
        begin = time.monotonic()
        text, shown = "", 0
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              preexec_fn=_end_with_us) as qemu, \
                open(result, "rb") as reader:
            try:
                ended, stops = False, 0
                while not ended and not self._over(qemu.pid, begin):
                    ended = qemu.poll() is not None
                    text += reader.read().decode(errors="replace").replace("\r", "")
                    stops = _stop_as_asked(qemu, text, stops)
                    shown = self._show(text, shown)
                    time.sleep(0 if ended else 0.05)
            finally:
                if qemu.poll() is None:
                    qemu.kill()
            said = qemu.stdout.read().decode(errors="replace")
        answer = re.search(r"^RESULT (\d+)$", text, re.M)
        if answer:
            said = re.sub(_STOP, "", text[_begin(text):answer.start()])
            return int(answer.group(1)), said.rstrip("\n") + "\n"
        why = "the guest ended without an answer" if ended else f"no answer in {self.timeout} s of CPU time"
        print(f"vm: {self.kernel['name']}: {why}; qemu said: {said.strip() or 'nothing'}; its console ended with",
              file=sys.stderr)
        with open(console, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines() or text[:_begin(text)].splitlines()
        sys.stderr.writelines(f"  | {line.rstrip()}\n" for line in lines[-40:])
        self.begun = "GUEST BEGIN\n" in text
        return (NO_RESULT if ended else TIMED_OUT), text[_begin(text):]

    def _show(self, text, shown):
        """Prints what the program in the guest has said since; returns how far."""
        begin = _begin(text)
        answer = re.search(r"^\n?RESULT \d+\n", text, re.M)
        end = answer.start() if answer else len(text)
        shown = max(shown, begin)
        if self.stream and end > shown:
            self.stream.write(text[shown:end])
            self.stream.flush()
        return max(shown, end)


def _end_with_us():
    """A killed lane must not leave its guest running: nothing would ever end it."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


# A test that wants its machine stopped writes this to $BRINK_VM_HOST, with the milliseconds.
_STOP = re.compile(r"HOST STOP (\d{1,3})\n")


def _stop_as_asked(qemu, text, done):
    """Stops the emulator by its pid once for each request that is new; returns how many there have been."""
    asked = _STOP.findall(text)
    for milliseconds in asked[done:]:
        if qemu.poll() is None:
            os.kill(qemu.pid, signal.SIGSTOP)
            time.sleep(int(milliseconds) / 1000)
            os.kill(qemu.pid, signal.SIGCONT)
    return len(asked)


def _begin(text):
    """Where the program's own words begin: before them a guest with one serial port writes its console there."""
    mark = re.search(r"^GUEST BEGIN\n", text, re.M)
    return mark.end() if mark else len(text)
