#!/usr/bin/python3
"""What runs brink for others: the DaemonSet's container and its rights, each of them needed; the systemd unit.

  deploy_test.py SOURCE BUILD"""
import gzip
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

SOURCE, BUILD = sys.argv[1:3]
BRINK = os.path.join(BUILD, "brink")
NOBODY = 65534


def feature(name):
    """Why brink's feature does not work here; None where it does."""
    done = subprocess.run([BRINK, "doctor", "--json"], capture_output=True, text=True, check=False)
    for check in json.loads(done.stdout)["features"]:
        if check["name"] == name:
            return None if check["on"] else f"{name}: {check['reason']}"
    return f"{name} is unknown to doctor"


def manifest():
    """(capabilities without CAP_, arguments) of the DaemonSet."""
    with open(os.path.join(SOURCE, "packaging/daemonset.yaml"), encoding="utf-8") as file:
        text = file.read()
    args = [word.strip('" ') for word in re.search(r"args: \[(.*)\]", text).group(1).split(",")]
    return re.findall(r"^ {16}- ([A-Z_]+)", text, re.M), args


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv: rights are taken away one by one")
class Rights(unittest.TestCase):
    """The container's process: user 0 with the manifest's capabilities and no way to more. Then without each of them."""

    @classmethod
    def setUpClass(cls):
        why = feature("source.walk")
        if why:
            raise unittest.SkipTest(why)
        cls.folder = tempfile.mkdtemp(prefix="brink-deploy-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chmod(cls.folder, 0o755)
        # Another user's program, in a folder that is open to that user alone, running before brink does.
        home = os.path.join(cls.folder, "home")
        os.mkdir(home)
        source, cls.program = os.path.join(cls.folder, "p.c"), os.path.join(home, "program")
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <unistd.h>\nint main(void) { volatile unsigned long n = 0; while (1) { for (int i = 0; i < 1000000; i++) n++; usleep(1000); } }\n")
        cls.build_id = os.urandom(20)
        subprocess.run(["gcc", "-O1", f"-Wl,--build-id=0x{cls.build_id.hex()}", source, "-o", cls.program], check=True)
        for path in (cls.program, home):
            os.chmod(path, 0o700)
            os.chown(path, NOBODY, NOBODY)
        cls.target = subprocess.Popen(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", cls.program])
        cls.addClassCleanup(cls.target.wait)
        cls.addClassCleanup(cls.target.kill)

    def record(self, without=None, pid=None, duration="300ms"):
        """(status, messages, recording, report) of the manifest's command without one of its capabilities, for a moment.
        Of a process alone it walks, and says how."""
        capabilities, args = manifest()
        if pid:
            args = [word for word in args if word not in ("-a", "--all-cgroups", "-q")] + ["--source", "walk", "-F", "499", "--walk-share", "2", "-p", str(pid)]
        wanted = ",".join(["-all"] + ["+" + c.lower() for c in capabilities if c != without])
        data, report = os.path.join(self.folder, "x.data"), os.path.join(self.folder, "report.json")
        for name in os.listdir(self.folder):
            if name.startswith(("x.data", "report")):
                os.unlink(os.path.join(self.folder, name))
        args[args.index("-o") + 1] = data
        words = ["setpriv", "--no-new-privs", f"--bounding-set={wanted}", f"--inh-caps={wanted}", BRINK, *args, "--duration", duration, "--json=" + report]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536)))
        recording, found = b"", {}
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("x.data"):
                with open(os.path.join(self.folder, name), "rb") as file:
                    recording += file.read()
        if os.path.exists(report):
            with open(report, encoding="utf-8") as file:
                found = json.load(file)
        return done.returncode, done.stderr, recording, found

    def test_all_of_them_are_enough(self):
        status, err, recording, report = self.record(duration="1s")
        self.assertIn(status, (0, 3), err)
        self.assertIn(self.build_id, recording)
        with open("/proc/sys/kernel/kptr_restrict", encoding="ascii") as file:
            if int(file.read()) < 2:  # hidden from everybody otherwise
                self.assertIn(b"kallsyms", recording)
        self.assertGreater(report["samples_written"], 0)

    def test_without_bpf_or_perfmon_it_refuses(self):
        for capability in ("BPF", "PERFMON"):
            status, err, _, _ = self.record(capability)
            self.assertEqual(status, 1, err)
            self.assertIn("needs CAP_BPF and CAP_PERFMON", err)

    def test_without_sys_ptrace_segment_bases_of_others_are_unknown(self):
        # Mappings of others can be read with CAP_PERFMON on newer kernels; without them the process is not judged at all.
        rights = ",".join(["-all"] + ["+" + c.lower() for c in manifest()[0] if c != "SYS_PTRACE"])
        maps = subprocess.run(["setpriv", "--no-new-privs", f"--bounding-set={rights}", f"--inh-caps={rights}", "cat", f"/proc/{self.target.pid}/maps"],
                              capture_output=True, check=False)
        if maps.returncode != 0:
            self.skipTest("this kernel shows mappings of others to nobody without CAP_SYS_PTRACE")
        for without, unknown in ((None, False), ("SYS_PTRACE", True)):
            status, err, _, _ = self.record(without, self.target.pid, "1s")
            self.assertIn(status, (0, 3), err)
            self.assertIn("walk code:", err)
            self.assertEqual(" 1 without segment bases" in err, unknown, err)

    def test_without_dac_read_search_programs_of_others_have_no_build_id(self):
        status, err, recording, _ = self.record("DAC_READ_SEARCH")
        self.assertIn(status, (0, 3), err)
        self.assertIn(b"home/program", recording)
        self.assertNotIn(self.build_id, recording)

    def test_without_syslog_the_kernel_has_no_symbols(self):
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
            if int(file.read()) < 2:
                self.skipTest("kernel.perf_event_paranoid below 2 shows kernel addresses to everybody")
        status, err, recording, _ = self.record("SYSLOG")
        self.assertIn(status, (0, 3), err)
        self.assertNotIn(b"kallsyms", recording)

    def test_without_ipc_lock_another_profiler_leaves_no_room_for_the_rings(self):
        with open("/proc/sys/kernel/perf_event_mlock_kb", encoding="ascii") as file:
            if int(file.read()) != 516:
                self.skipTest("kernel.perf_event_mlock_kb is not the kernel's own")
        ready = os.path.join(self.folder, "ready")
        other = subprocess.Popen([BRINK, "record", "-q", "--source", "none", "-o", os.path.join(self.folder, "other.data"), "--", "sh", "-c", f"touch {ready}; exec sleep 100"],
                                 start_new_session=True)
        try:
            deadline = time.monotonic() + 60
            while not os.path.exists(ready) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertTrue(os.path.exists(ready))
            status, err, _, _ = self.record("IPC_LOCK")
            self.assertEqual(status, 1, err)
            self.assertIn("CAP_IPC_LOCK", err)
            status, err, _, _ = self.record()
            self.assertIn(status, (0, 3), err)
        finally:
            os.killpg(other.pid, signal.SIGTERM)
            other.wait(timeout=60)


# The container that the manifest describes: the image's layer as a root that cannot be written, the node's processes,
# tracefs and cgroups to read, a folder for recordings. The capabilities that are dropped come as the second argument.
CONTAINER = """set -e; root=$1; drop=$2; shift 2
mount --bind $root $root; mount -t proc proc $root/proc; mount -t sysfs -o ro sysfs $root/sys
mount -t tracefs -o ro tracefs $root/sys/kernel/tracing; mount --rbind /sys/fs/cgroup $root/sys/fs/cgroup
mount --bind $root.data $root/var/lib/brink; mount -o remount,bind,ro $root
exec capsh --chroot=$root --drop=$drop --no-new-privs --shell=/usr/bin/brink -- "$@\""""


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("capsh") and shutil.which("unshare"), "needs root, capsh and unshare")
class Container(unittest.TestCase):
    def test_the_image_records_the_node(self):
        why = feature("bpf.perf_event") or feature("kernel.tracefs")
        if why:
            self.skipTest(why)
        folder = tempfile.mkdtemp(prefix="brink-container-")
        self.addCleanup(shutil.rmtree, folder)
        done = subprocess.run([os.path.join(SOURCE, "tools/package"), "oci", "--build", BUILD, "--out", folder], capture_output=True, text=True, check=True)
        with tarfile.open(done.stdout.split()[-1]) as archive:
            blobs = {m.name: archive.extractfile(m).read() for m in archive if m.isreg()}
        blob = lambda described: blobs["blobs/" + described["digest"].replace(":", "/")]  # noqa: E731
        layer = gzip.decompress(blob(json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))["layers"][0]))
        root = os.path.join(folder, "root")
        os.mkdir(root + ".data")
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            archive.extractall(root)
        capabilities, args = manifest()
        drop = [name for name in capability_names() if name[4:].upper() not in capabilities]
        words = ["unshare", "-m", "--uts", "--ipc", "--propagation", "private", "sh", "-c", CONTAINER, "sh", root, ",".join(drop), *args, "--duration", "300ms"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        self.assertIn(done.returncode, (0, 3), done.stderr)
        recordings = os.listdir(root + ".data")
        self.assertEqual(len(recordings), 1, recordings)
        report = subprocess.run([BRINK, "script", "-i", os.path.join(root + ".data", recordings[0]), "-F", "comm,pid,time,ip"], capture_output=True, text=True, check=False)
        self.assertEqual(report.returncode, 0, report.stderr)


def capability_names():
    """cap_chown ... as this kernel knows them."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    names = []
    for number in range(last + 1):
        text = subprocess.run(["capsh", f"--explain={number}"], capture_output=True, text=True, check=True).stdout
        names.append(re.search(r"cap_\w+", text).group(0))
    return names


@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
class Unit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="brink-unit-")
        self.addCleanup(shutil.rmtree, self.folder)
        with open(os.path.join(BUILD, "systemd/brink-agent.service"), encoding="utf-8") as file:
            # Its program may not be installed on this machine.
            self.text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=" + BRINK, file.read())

    def analyze(self, text, *words):
        path = os.path.join(self.folder, "brink-agent.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run(["systemd-analyze", *words, path], capture_output=True, text=True, check=False)
        if "unrecognized option" in done.stderr:
            self.skipTest("an older systemd-analyze: " + done.stderr.strip())
        return done.returncode, done.stdout + done.stderr

    def verify(self, text):
        """What it says of this unit: it looks at others of the machine, too."""
        return [line for line in self.analyze(text, "--man=no", "verify")[1].splitlines() if "brink-agent" in line]

    def test_it_is_sound(self):
        self.assertEqual(self.verify(self.text), [])
        for right, wrong in (("Type=notify", "Type=notifying"), ("ExecStart=/", "ExecStart=/no/such/"), ("MemoryMax=512M", "MemoryMax=half"),
                             ("@system-service", "@sytem-service")):
            self.assertIn(right, self.text)
            self.assertNotEqual(self.verify(self.text.replace(right, wrong, 1)), [], wrong)

    def test_it_is_confined(self):
        # 9.x is a service without any of it. What remains is what recording other processes takes.
        status, text = self.analyze(self.text, "--offline=true", "--threshold=42", "security")
        self.assertEqual(status, 0, text)
        loose = "\n".join(line for line in self.text.splitlines() if not line.startswith(("SystemCallFilter", "CapabilityBoundingSet")))
        self.assertNotEqual(self.analyze(loose, "--offline=true", "--threshold=42", "security")[0], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
