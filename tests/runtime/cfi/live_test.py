#!/usr/bin/python3
"""brink cfi run on real processes: actions, policy files, targets, what alarms look like, and hostile company.

  live_test.py BUILD [unittest arguments]
"""
import ctypes
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "attacks"))
import run as attacks  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build").resolve()
BRINK = str(BUILD / "brink")
DOCS = HERE.parents[2] / "docs"


def why_not():
    if os.geteuid():
        return "needs root"
    if not attacks.forms(["gcc"], True):
        return "needs gcc"
    doctor = subprocess.run([BRINK, "doctor", "--json"], capture_output=True, text=True)
    features = {row["name"]: row for row in json.loads(doctor.stdout)["features"]}
    walk = features["source.walk"]
    return "" if walk["on"] else "needs source.walk: " + str(walk["reason"])


def patient(cls):
    """Each test up to three times: a walk has 100 us, and what a hypervisor takes of that ends it early."""
    def wrap(test):
        @functools.wraps(test)
        def turns(self):
            for turn in range(3):
                try:
                    return test(self)
                except self.failureException as error:
                    if turn == 2:
                        raise
                    print(f"again: {test.__name__}: {error}", file=sys.stderr)
        return turns
    for name in [n for n in vars(cls) if n.startswith("test_")]:
        setattr(cls, name, wrap(getattr(cls, name)))
    return cls


@patient
class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="brink-cfi-"))
        _label, c, cxx, pie, cf = attacks.forms(["gcc"], True)[0]
        attacks.build(cls.work, c, cxx, pie, cf)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def run_attacks(self, names, *extra, **more):
        """Statuses, alarms by program, report."""
        _found, status = attacks.live(BRINK, self.work, names, list(extra), **more)
        alarms = {name: [] for name in names}
        with open(self.work / "alarms.json", encoding="utf-8") as file:
            for alarm in map(json.loads, file):
                alarms.setdefault(alarm["process"]["comm"], []).append(alarm)
        with open(self.work / "report.json", encoding="utf-8") as file:
            return status, alarms, json.load(file)

    def policy(self, text):
        path = self.work / "policy.yaml"
        path.write_text("version: 1\nentries:\n" + text)
        return str(path)

    # A kill at the exit of read() comes before the return that the request has forged.
    def test_kill_comes_before_the_effect(self):
        status, alarms, report = self.run_attacks(["A1r", "A3r"], "--kill", "P1,P2", "--act")
        self.assertEqual(status, {"A1r": "137", "A3r": "137"})
        self.assertEqual(report["actions"]["killed"], 2)
        for name in ("A1r", "A3r"):
            self.assertEqual({(a["action"]["taken"], a["action"]["result"]) for a in alarms[name]}, {("kill", "done in the kernel")})

    def test_without_act_it_is_a_dry_run(self):
        status, alarms, report = self.run_attacks(["A3r"], "--kill", "P1,P2")
        self.assertEqual(status, {"A3r": "42"})
        self.assertEqual(report["actions"]["killed"], 0)
        self.assertGreater(report["actions"]["dry"], 0)
        self.assertIn(("kill", "dry run"), {(a["action"]["taken"], a["action"]["result"]) for a in alarms["A3r"]})

    def test_limits_and_spared_programs(self):
        status, _alarms, report = self.run_attacks(["A3r", "A1r"], "--kill", "P1,P2", "--act", "--spare", "A3r")
        self.assertEqual(status, {"A3r": "42", "A1r": "137"})
        self.assertGreater(report["actions"]["held_back"], 0)
        status, _alarms, report = self.run_attacks(["A3r"], "--kill", "P1,P2", "--act", "--actions-per-minute", "0")
        self.assertEqual((status, report["actions"]["killed"]), ({"A3r": "42"}, 0))

    # By user space, after the fact: the process of the alarm, or nobody.
    def test_actions_of_policy_files(self):
        path = self.policy('  - {name: a, match: {exe: "*/A3r"}, action: kill, action_at: medium}\n')
        _status, alarms, _report = self.run_attacks(["A3r"], "--policy", path, "--act")
        self.assertTrue({a["action"]["result"] for a in alarms["A3r"] if a["severity"] in ("medium", "high")} <= {"done", "gone before"})
        self.assertEqual({a["action"]["taken"] for a in alarms["A3r"] if a["severity"] in ("medium", "high")}, {"kill"})

        # The list of spared programs and the limit hold for them too.
        for extra, result in ((["--spare", "A3r"], "spared"), (["--actions-per-minute", "0"], "limit of the minute")):
            status, alarms, _report = self.run_attacks(["A3r"], "--policy", path, "--act", *extra)
            self.assertEqual(status, {"A3r": "42"})
            self.assertLessEqual({a["action"]["result"] for a in alarms["A3r"] if a["severity"] in ("medium", "high")}, {result, "gone before"})

    # What a policy file wants kept: all registers, the stack, the mappings, the branches.
    def test_snapshots_are_written(self):
        path = self.policy('  - {name: a, match: {exe: "*/A3r"}, action: snapshot, action_at: medium}\n')
        folder = self.work / "snapshots"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        status, alarms, _report = self.run_attacks(["A3r"], "--policy", path, "--snapshots", folder)
        self.assertEqual(status, {"A3r": "42"})  # nothing is done to the process
        told = {a["action"]["result"]: a for a in alarms["A3r"] if a["severity"] in ("medium", "high")}
        self.assertTrue(told)
        for file, alarm in told.items():
            self.assertEqual(pathlib.Path(file).parent, folder)
            self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)
            kept = json.loads(pathlib.Path(file).read_text())
            self.assertEqual((kept["schema"], len(kept["registers"])), ("brink.cfi.snapshot.v1", 21))
            self.assertEqual(kept["alarm"]["id"], alarm["id"])
            self.assertEqual(kept["registers"]["sp"], alarm["registers"]["sp"])
            self.assertEqual(kept["stack_at_check"], alarm["stack"])
            if kept["maps"] is not None:  # the process may have gone
                self.assertIn("[stack]", kept["maps"])
        _status, alarms, _report = self.run_attacks(["A3r"], "--policy", path)
        self.assertIn("no --snapshots DIR", {a["action"]["result"] for a in alarms["A3r"]})

    # Which windows of a program are judged: a policy file may leave out all, or all but those of sensitive calls.
    def test_check_points_of_policy_files(self):
        for which, points in (("none", set()), ("sensitive", {"syscall_enter"})):
            path = self.policy('  - {name: a, match: {exe: "*/A1r"}, check: ' + which + "}\n")
            _status, alarms, report = self.run_attacks(["A1r"], "--policy", path)
            self.assertLessEqual({(a["hook"]["point"]) for a in alarms["A1r"] if a["hook"]["syscall"] != "mprotect"}, points, which)
            self.assertGreater(report["left_out"], 0, which)

    # A debugger or uprobes move returns (R10): nothing is done then on the word of P1 and P2.
    def test_nothing_is_done_to_a_process_that_is_traced(self):
        libc, traced, done = ctypes.CDLL(None, use_errno=True), [], threading.Event()

        def trace(pid):  # the thread that seizes it is the one to be told
            if libc.ptrace(0x4206, pid, None, None) == 0:  # PTRACE_SEIZE
                traced.append(pid)
            done.set()
            while traced:
                _pid, status = os.waitpid(pid, 0x40000000)  # __WALL
                if not os.WIFSTOPPED(status):
                    break
                libc.ptrace(7, pid, None, os.WSTOPSIG(status))  # PTRACE_CONT

        def seize(_pacer):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() != "A1r":
                        continue
                except OSError:
                    continue
                threading.Thread(target=trace, args=(int(pid),), daemon=True).start()
                done.wait(10)
                return True
            return False

        status, alarms, report = self.run_attacks(["A1r"], "--kill", "P1,P2", "--act", before={"A1r": seize})
        self.assertEqual((status, len(traced)), ({"A1r": "42"}, 1))
        self.assertEqual(report["actions"]["killed"], 0)
        for alarm in alarms["A1r"]:
            if alarm["action"]["taken"] == "kill":
                self.assertIn("debugger", alarm["action"]["result"])

    # A walk from the entry of a call that writes memory reads what is about to be written over.
    def test_what_a_call_writes_is_judged_at_its_end(self):
        source = self.work / "filled.c"
        source.write_text("#include <unistd.h>\nstatic void fine(void) {}\nint main(void) { int p[2]; pipe(p); void (*to)(void) = fine; for (int i = 0; i < 400; i++) { struct { void (*volatile f)(void); } got = {0};"
                          " write(p[1], &to, sizeof to); __asm__ volatile(\"\" ::\"r\"(read(p[0], (void *)&got, sizeof to)): \"memory\"); got.f(); usleep(1000); } return 0; }\n")
        subprocess.run(["gcc", "-O1", "-o", self.work / "filled", source], check=True)
        alarms, report = self.work / "filled.json", self.work / "filled-report.json"
        alarms.unlink(missing_ok=True)
        done = subprocess.run([BRINK, "cfi", "run", "-q", "--every", "--repeats", "--share", "100", "--walk-budget", "100us", "--calls", "read", "--min-severity", "low", "--kill", "P1,P2,P8", "--act", "--sink", f"json:{alarms}", "--report", report, "--",
                               self.work / "filled"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)  # it was not killed
        told = [json.loads(line) for line in alarms.read_text().splitlines()]
        self.assertTrue([a for a in told if a["hook"]["point"] == "syscall_enter" and a["hook"]["syscall"] == "read"], "the walk was to see the old pointer")
        self.assertEqual({a["severity"] for a in told}, {"low"})
        self.assertEqual({a["hook"]["point"] for a in told}, {"syscall_enter"})

    def test_policy_files_are_read_again(self):
        quiet = "".join(f"P{i}: off, " for i in range(1, 14))
        path = self.policy('  - {name: nothing, match: {exe: "*"}, rules: {' + quiet[:-2] + "}}\n")

        def asked(pacer, counter):
            pacer.monitor.send_signal(signal.SIGUSR1)
            return int(dict(pacer.metrics())[counter]) > 0

        def after(text, counter):
            sent = []

            def step(pacer):
                if not sent:
                    pathlib.Path(path).write_text(text)
                    pacer.monitor.send_signal(signal.SIGHUP)
                    sent.append(1)
                return asked(pacer, counter)
            return step

        good = 'version: 1\nentries:\n  - {name: some, match: {exe: "*/A12"}, rules: {P5: low}}\n'
        _status, alarms, _report = self.run_attacks(["A3"], "--policy", path)
        self.assertEqual(alarms["A3"], [])
        # What is judged late is judged by the policy of then: the first program here may go either way.
        status, alarms, report = self.run_attacks(["A3", "A3r", "A12"], "--policy", path, before={
            "A3r": after(good, "brink_cfi_policy_reloads_total"), "A12": after("version: 1\nentries:\n  - {nme: x}\n", "brink_cfi_policy_reload_errors_total")})
        self.assertNotEqual(alarms["A3r"], [])
        # The file with an error has changed nothing.
        self.assertIn("low", {v["severity"] for a in alarms["A12"] for v in a["violations"] if v["policy"] == "P5"})
        self.assertEqual((report["reloads"], report["bad_reloads"]), (1, 1), status)

    def test_alarms_follow_their_schema_and_are_explained(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("needs python3-jsonschema")
        ocsf = self.work / "ocsf.json"
        _status, alarms, _report = self.run_attacks(["A3r", "A9", "A20", "A16"], "--sink", f"ocsf:{ocsf}")
        lines = [a for name in alarms for a in alarms[name]]
        self.assertEqual(sorted(n for n in alarms if not alarms[n]), [])
        with open(DOCS / "schema" / "cfi_alarm.json", encoding="utf-8") as file:
            validator = jsonschema.Draft202012Validator(json.load(file))
        for alarm in lines:
            self.assertEqual([e.message for e in validator.iter_errors(alarm)], [])
            said = subprocess.run([BRINK, "cfi", "explain", "-"], input=json.dumps(alarm), capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stderr)
            for words in ("What happened", "The rule", "How sure", "seen at " + alarm["hook"]["point"], "Where to look"):
                self.assertIn(words, said.stdout)
        broken = dict(lines[0], severity="dreadful")
        self.assertNotEqual(list(validator.iter_errors(broken)), [])
        with open(DOCS / "schema" / "cfi_ocsf.json", encoding="utf-8") as file:
            validator = jsonschema.Draft202012Validator(json.load(file))
        findings = [json.loads(line) for line in ocsf.read_text().splitlines()]
        self.assertEqual(len(findings), len(lines))
        self.assertEqual([e.message for finding in findings for e in validator.iter_errors(finding)], [])

    # Two groups that look like a runtime's; who is in the one is watched.
    def one_group_of_two(self, target, places, store):
        """`places`: program -> path of its group; `store`: its container's name and labels. The alarms told."""
        # brink looks at one hierarchy; a runtime puts a container into each.
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line.split()[4] for line in file if " - cgroup2 " in line or " - cgroup " in line]
        root, bases = self.work / f"runtime-{target[0][2:]}", []
        for mount in mounts:
            base = pathlib.Path(mount) / f"brink_cfi_test_{os.getpid()}"
            try:
                base.mkdir()
            except OSError:
                continue
            bases.append(base)
            for place in places.values():
                (base / place).mkdir(parents=True)
        if not bases:
            self.skipTest("cannot make cgroups")
        for name, place in places.items():
            folder = root / "var/lib/docker/containers" / pathlib.Path(place).name
            folder.mkdir(parents=True, exist_ok=True)
            folder.joinpath("config.v2.json").write_text(json.dumps({"Name": store[name][0], "Config": {"Image": "demo:1", "Labels": store[name][1]}}))
        try:
            metrics, alarms_file = self.work / "metrics", self.work / "container.json"
            for old in (metrics, alarms_file, *(self.work / f"ready.{n}" for n in places)):
                old.unlink(missing_ok=True)
            monitor = subprocess.Popen([BRINK, "cfi", "run", "-q", "--every", "--check", "all", "--share", "100", *target, "--runtime-root", root, "--warm", self.work / "A3r", "--metrics", metrics,
                                        "--sink", f"json:{alarms_file}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while not metrics.exists() and monitor.poll() is None:
                time.sleep(0.02)
            for name in ("A1r", "A3r"):
                (self.work / "status").write_text("")
                pacer = attacks.Pacer(monitor, self.work, [name], {})
                if name == "A1r":
                    (self.work / "ready.A1r").touch()  # nobody watches it
                pacer.start()
                enter = "".join(f"echo $$ 2>/dev/null >{base}/{places[name]}/cgroup.procs; " for base in bases)
                subprocess.run(["sh", "-c", f"{enter} exec {self.work}/{name} {name}"], stderr=subprocess.DEVNULL, env=dict(os.environ, ATTACK_READY=str(self.work / "ready")), timeout=120)
                pacer.over.set()
                pacer.join()
            monitor.send_signal(signal.SIGINT)
            _out, err = monitor.communicate(timeout=60)
            self.assertEqual(monitor.returncode, 0, err)
            with open(alarms_file, encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        finally:
            for base in bases:
                for folder, _below, _files in os.walk(base, topdown=False):
                    for _turn in range(100):  # a process that has just ended may still be in it
                        try:
                            os.rmdir(folder)
                            break
                        except OSError:
                            time.sleep(0.02)

    IDS = {"A3r": "3f8c1b0d9e7a6f5c4b3a29181706f5e4d3c2b1a0998877665544332211ffeedd", "A1r": "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"}

    def test_one_container_of_two(self):
        told = self.one_group_of_two(["--container", "web"], {name: f"docker/{ident}" for name, ident in self.IDS.items()}, {"A3r": ("/web", {}), "A1r": ("/db", {})})
        self.assertEqual({a["process"]["comm"] for a in told}, {"A3r"})
        self.assertEqual({(a["container"]["name"], a["container"]["image"]) for a in told}, {("web", "demo:1")})

    def test_one_pod_of_two(self):
        pods = {"A3r": "web-1", "A1r": "db-0"}
        uids = {"A3r": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "A1r": "1a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"}
        told = self.one_group_of_two(["--pod", "shop/web-1"], {name: f"kubepods/burstable/pod{uids[name]}/{ident}" for name, ident in self.IDS.items()},
                                     {name: (f"/k8s_app_{pod}_shop_x_0", {"io.kubernetes.container.name": "app", "io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": "shop"}) for name, pod in pods.items()})
        self.assertEqual({a["process"]["comm"] for a in told}, {"A3r"})
        self.assertEqual({(a["k8s"]["namespace"], a["k8s"]["pod"], a["k8s"]["uid"], a["container"]["name"]) for a in told}, {("shop", "web-1", uids["A3r"], "app")})

    # The honest server is learned; the same server's chain then goes ways that it never went (P12, P13).
    def test_what_was_learned_is_the_baseline(self):
        base = self.work / "base"
        environment = dict(os.environ, ATTACK_ROUNDS="60")
        base.unlink(missing_ok=True)
        done = subprocess.run([BRINK, "cfi", "learn", "-q", "-o", base, "--share", "100", "--warm", self.work / "A3r", "--warm", self.work / "libprobe.so", "--sink", f"json:{self.work}/learn.json", "--", self.work / "A15", "A15"],
                              capture_output=True, text=True, timeout=120, env=environment)
        self.assertTrue(base.exists(), done.stderr)
        self.assertTrue(base.read_text(encoding="utf-8"))
        _status, _alarms, report = self.run_attacks(["A3r"], "--baseline", base)
        new = report["policies"]["P12"]
        self.assertGreater(new["held"], 0)  # what the honest requests do was seen
        self.assertGreater(new["violated"], 0)

    def test_ten_thousand_mappings(self):
        status, alarms, _report = self.run_attacks(["A3r"], environment={"ATTACK_MAPPINGS": "10000"})
        self.assertEqual(status, {"A3r": "42"})
        self.assertTrue(any(a["hook"]["point"] == "syscall_exit" and "P1" in a["policy_ids"] for a in alarms["A3r"]))

    def honest(self, script):
        """Runs a shell text watched with everything on; the report. No alarm is allowed."""
        alarms, report = self.work / "honest.json", self.work / "honest-report.json"
        alarms.unlink(missing_ok=True)  # sinks append
        done = subprocess.run([BRINK, "cfi", "run", "-q", "--every", "--repeats", "--switches", "-F", "200", "--sink", f"json:{alarms}", "--report", report, "--", "bash", "-c", script], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(alarms.read_text(), "false alarms:\n" + alarms.read_text())
        return json.loads(report.read_text())

    # Processes that are gone before anybody can look at them, killed in the middle, replaced while threads run.
    def test_processes_that_vanish(self):
        report = self.honest("for i in $(seq 150); do /bin/true & sleep 0.05 & kill -9 $!; done; wait; true")
        self.assertGreater(report["checks"], 100)

    def test_exec_races(self):
        script = "import os, sys, threading, time\nn = int(sys.argv[1])\nfor _ in range(4): threading.Thread(target=lambda: [time.sleep(0.0005) for _ in range(10000)], daemon=True).start()\ntime.sleep(0.02)\n" \
                 "t = threading.Thread(target=lambda: os.execv(sys.executable, [sys.executable, sys.argv[0], str(n - 1)]))\nif n: t.start(); t.join()\nos._exit(0)\n"
        (self.work / "execs.py").write_text(script)
        report = self.honest(f"python3 {self.work}/execs.py 12")
        self.assertGreater(report["checks"], 100)

    # Everywhere at once, in a mount namespace whose system log and journal are the test's own.
    def test_every_sink_gets_every_alarm(self):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            signal.alarm(240)
            try:
                os.write(writer, json.dumps(self.all_sinks()).encode())
                status = 0
            except BaseException as error:  # pylint: disable=broad-except
                os.write(writer, json.dumps({"error": repr(error)}).encode())
            finally:
                os._exit(status)
        os.close(writer)
        with open(reader, encoding="utf-8") as file:
            text = file.read()
        os.waitpid(child, 0)
        self.assertTrue(text, "no answer in time")
        got = json.loads(text)
        self.assertNotIn("error", got)
        alarms = got["json"]
        ids = [a["id"] for a in alarms]
        self.assertGreater(len(ids), 1)
        self.assertEqual([a["id"] for a in got["unix"]], ids)
        self.assertEqual([a["id"] for a in got["webhook"]], ids)
        self.assertEqual(len(got["falco"]), len(ids))
        for line, alarm in zip(got["falco"], alarms):
            self.assertEqual((line["source"], line["output_fields"]["proc.pid"]), ("brink", alarm["process"]["pid"]))
        self.assertEqual([f["finding_info"]["uid"] for f in got["ocsf"]], ids)
        priority = {"low": 5, "medium": 4, "high": 2}  # notice, warning, critical
        self.assertEqual([line.split(">")[0] for line in got["syslog"]], [f"<{10 * 8 + priority[a['severity']]}" for a in alarms])
        self.assertTrue(all("brink[" in line for line in got["syslog"]))
        entries = [dict(line.split("=", 1) for line in text.splitlines()) for text in got["journal"]]
        self.assertEqual([(e["PRIORITY"], json.loads(e["BRINK_ALARM"])["id"], e["BRINK_SEVERITY"]) for e in entries], [(str(priority[a["severity"]]), a["id"], a["severity"]) for a in alarms])
        samples = [line for line in got["metrics"].splitlines() if not line.startswith("#")]
        self.assertTrue(all(re.fullmatch(r"brink_cfi_[a-z_]+_total(\{[a-z]+=\"[^\"]*\"(,[a-z]+=\"[^\"]*\")*\})? [0-9]+", line) for line in samples), samples)
        typed = {line.split()[2] for line in got["metrics"].splitlines() if line.startswith("# TYPE")}
        self.assertEqual({re.split("[{ ]", line)[0] for line in samples}, typed)
        counted = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in samples}
        for severity in priority:
            self.assertEqual(counted[f'brink_cfi_alarms_total{{severity="{severity}"}}'], sum(a["severity"] == severity for a in alarms))

    def all_sinks(self):
        """In a process of its own: what came to each sink."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x20000):  # CLONE_NEWNS
            raise OSError(ctypes.get_errno(), "unshare")
        nodes = self.work / "nodes"
        nodes.mkdir(exist_ok=True)
        for words in (["--make-rprivate", "/"], ["-t", "tmpfs", "none", "/run"], ["-t", "tmpfs", "none", nodes]):
            subprocess.run(["mount", *words], check=True)
        for name in ("null", "zero", "full", "random", "urandom"):
            subprocess.run(["cp", "-a", f"/dev/{name}", nodes], check=True)
        subprocess.run(["mount", "--move", nodes, "/dev"], check=True)
        got = {name: [] for name in ("unix", "webhook", "syslog", "journal")}

        def listen(kind, path):
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
            sock = socket.socket(socket.AF_UNIX, kind)
            sock.bind(path)
            return sock

        def datagrams(sock, into):
            while True:
                into.append(sock.recv(1 << 20).decode())

        def stream(sock):
            connection, _peer = sock.accept()
            with sock, connection, connection.makefile() as lines:
                for line in lines:
                    got["unix"].append(json.loads(line))

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                got["webhook"].append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_words):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
        lines = listen(socket.SOCK_STREAM, "/run/alarms")
        lines.listen()
        for target, words in ((server.serve_forever, ()), (stream, (lines,)), (datagrams, (listen(socket.SOCK_DGRAM, "/dev/log"), got["syslog"])), (datagrams, (listen(socket.SOCK_DGRAM, "/run/systemd/journal/socket"), got["journal"]))):
            threading.Thread(target=target, args=words, daemon=True).start()
        sinks = [f"falco:{self.work}/falco.json", f"ocsf:{self.work}/ocsf.json", "unix:/run/alarms", f"webhook:http://127.0.0.1:{server.server_port}/in", "syslog", "journald"]
        for old in ("falco.json", "ocsf.json"):
            (self.work / old).unlink(missing_ok=True)
        _status, alarms, _report = self.run_attacks(["A3r", "A20"], *(word for sink in sinks for word in ("--sink", sink)))
        got["json"] = [json.loads(line) for line in (self.work / "alarms.json").read_text().splitlines()]
        for name in ("falco", "ocsf"):
            got[name] = [json.loads(line) for line in (self.work / f"{name}.json").read_text().splitlines()]
        got["metrics"] = (self.work / "metrics").read_text()
        deadline = time.monotonic() + 5  # what was sent is with the listeners, whose threads may still be at it
        while time.monotonic() < deadline and any(len(got[name]) < len(got["json"]) for name in ("unix", "webhook", "syslog", "journal")):
            time.sleep(0.02)
        return got

    # A pid that comes back is another process: its alarms have its own start and identity.
    def test_pids_that_come_back(self):
        last = pathlib.Path("/proc/sys/kernel/ns_last_pid")
        if not os.access(last, os.W_OK) or not last.exists():
            self.skipTest("the kernel has no ns_last_pid")
        script = f"""
import os, subprocess, sys
pids = []
for name in ("A3r", "A1r"):
    for _ in range(200):
        if pids: open("{last}", "w").write(str(pids[0] - 1))
        pid = os.fork()
        if pid == 0:
            if pids and os.getpid() != pids[0]: os._exit(7)
            os.execv("{self.work}/" + name, [name, name])
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) != 7: break
    if not pids: pids.append(pid)
    print(name, os.waitstatus_to_exitcode(status), file=open("{self.work}/status", "a"))
"""
        (self.work / "reuse.py").write_text(script)
        _status, alarms, _report = self.run_attacks(["A3r", "A1r"], command=["python3", str(self.work / "reuse.py")])
        first, second = alarms["A3r"], alarms["A1r"]
        self.assertTrue(first)
        if not second or first[0]["process"]["pid"] != second[0]["process"]["pid"]:
            self.skipTest("others took the pid in between")
        self.assertNotEqual(first[0]["process"]["start_time_ns"], second[0]["process"]["start_time_ns"])
        self.assertNotEqual(first[0]["process"]["exec_id"], second[0]["process"]["exec_id"])


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print("SKIP " + reason)
        sys.exit(77)
    unittest.main(verbosity=2)
