#!/usr/bin/python3
"""brink cfi run on real processes: actions, policy files, targets, what alarms look like, and hostile company.

  live_test.py BUILD [unittest arguments]
"""
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
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

    # Two groups that look like docker's; who is in the one is watched.
    def test_one_container_of_two(self):
        # brink looks at one hierarchy; a runtime puts a container into each.
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line.split()[4] for line in file if " - cgroup2 " in line or " - cgroup " in line]
        ids = {"A3r": "3f8c1b0d9e7a6f5c4b3a29181706f5e4d3c2b1a0998877665544332211ffeedd", "A1r": "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"}
        root, bases = self.work / "runtime", []
        for mount in mounts:
            base = pathlib.Path(mount) / f"brink_cfi_test_{os.getpid()}"
            try:
                base.mkdir()
            except OSError:
                continue
            bases.append(base)
            for ident in ids.values():
                (base / "docker" / ident).mkdir(parents=True)
        if not bases:
            self.skipTest("cannot make cgroups")
        for name, ident in ids.items():
            store = root / "var/lib/docker/containers" / ident
            store.mkdir(parents=True, exist_ok=True)
            store.joinpath("config.v2.json").write_text(json.dumps({"Name": "/web" if name == "A3r" else "/db", "Config": {"Image": "demo:1"}}))
        try:
            metrics, alarms_file = self.work / "metrics", self.work / "container.json"
            for old in (metrics, alarms_file, *(self.work / f"ready.{n}" for n in ids)):
                old.unlink(missing_ok=True)
            monitor = subprocess.Popen([BRINK, "cfi", "run", "-q", "--every", "--check", "all", "--share", "100", "--container", "web", "--runtime-root", root, "--warm", self.work / "A3r", "--metrics", metrics,
                                        "--sink", f"json:{alarms_file}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while not metrics.exists() and monitor.poll() is None:
                time.sleep(0.02)
            for name, ident in (("A1r", ids["A1r"]), ("A3r", ids["A3r"])):
                (self.work / "status").write_text("")
                pacer = attacks.Pacer(monitor, self.work, [name], {})
                if name == "A1r":
                    (self.work / "ready.A1r").touch()  # nobody watches it
                pacer.start()
                enter = "".join(f"echo $$ 2>/dev/null >{base}/docker/{ident}/cgroup.procs; " for base in bases)
                subprocess.run(["sh", "-c", f"{enter} exec {self.work}/{name} {name}"], stderr=subprocess.DEVNULL, env=dict(os.environ, ATTACK_READY=str(self.work / "ready")), timeout=120)
                pacer.over.set()
                pacer.join()
            monitor.send_signal(signal.SIGINT)
            _out, err = monitor.communicate(timeout=60)
            self.assertEqual(monitor.returncode, 0, err)
            with open(alarms_file, encoding="utf-8") as file:
                told = [json.loads(line) for line in file]
            self.assertEqual({a["process"]["comm"] for a in told}, {"A3r"})
            self.assertEqual({(a["container"]["name"], a["container"]["image"]) for a in told}, {("web", "demo:1")})
        finally:
            for base in bases:
                for ident in ids.values():
                    os.rmdir(base / "docker" / ident)
                os.rmdir(base / "docker")
                os.rmdir(base)

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
