#!/usr/bin/python3
"""brink cfi run on real processes: actions, targets, what alarms look like, and hostile company.

  live_test.py BUILD [unittest arguments]
"""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from live import BRINK, HERE, Live, attacks, main, patient  # noqa: E402

DOCS = HERE.parents[2] / "docs"


@patient
class Processes(Live):
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

    # Nothing is said of a process before it has been vetted, and that is told: when it is over, in the report, in the metrics.
    def test_the_end_of_a_cold_start_is_told(self):
        work = self.work
        (work / "turns.py").write_text(f"import os\nwhile not os.path.exists('{work}/enough'):\n  with open('/proc/self/stat') as f: f.read()\n")
        monitor = subprocess.Popen([BRINK, "cfi", "run", "--share", "100", "--sink", f"json:{work}/cold.json", "--metrics", work / "cold.metrics", "--report", work / "cold-report.json", "--", "python3", work / "turns.py"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        late = threading.Timer(60, (work / "enough").touch)
        late.start()
        said = None
        for line in monitor.stderr:
            said = said or re.search(r"(\d+) processes vetted after ([0-9.]+) s; nothing could be said at (\d+) of (\d+) checks until then", line)
            if said:
                (work / "enough").touch()
        late.cancel()
        self.assertEqual(monitor.wait(60), 0)
        monitor.stderr.close()
        (work / "enough").unlink()
        self.assertTrue(said, "no line")
        vetted, _seconds, unsaid, checks = said.groups()
        self.assertGreaterEqual(int(vetted), 1)
        self.assertTrue(0 < int(unsaid) < int(checks))
        report = json.loads((work / "cold-report.json").read_text())
        self.assertGreaterEqual(report["unvetted_checks"], int(unsaid))
        self.assertGreaterEqual(report["lift"]["vetted"], int(vetted))
        self.assertIn(f"brink_cfi_unvetted_checks_total {report['unvetted_checks']}", (work / "cold.metrics").read_text())

    # int $0x80 has numbers of its own: 15 is chmod there, and the signal that the thread is in is open still.
    def test_the_other_gate_takes_no_signal_away(self):
        source, alarms, report = self.work / "gate.c", self.work / "gate.json", self.work / "gate-report.json"
        source.write_text("#include <signal.h>\nstatic void handler(int n) { int r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(15), \"b\"(0), \"c\"(0) : \"memory\"); (void)n; (void)r; }\n"
                          "int main(void) { signal(SIGUSR1, handler); for (int i = 0; i < 20; i++) raise(SIGUSR1); return 0; }\n")
        subprocess.run(["gcc", "-O1", "-o", self.work / "gate", source], check=True)
        if subprocess.run([self.work / "gate"]).returncode:
            self.skipTest("the kernel has no int $0x80")
        alarms.unlink(missing_ok=True)
        done = subprocess.run([BRINK, "cfi", "run", "-q", "--every", "--hook", "raw", "--check", "sensitive", "--sink", f"json:{alarms}", "--report", report, "--", self.work / "gate"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((alarms.read_text(), json.loads(report.read_text())["forged_signal_returns"]), ("", 0))

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

    def start_monitor(self, *options):
        """A monitor of its own, armed; end_monitor() gives its alarms."""
        for old in ("metrics", "alarms.json"):
            (self.work / old).unlink(missing_ok=True)
        monitor = subprocess.Popen([BRINK, "cfi", "run", "-q", "--every", "--check", "all", "--share", "100", "--walk-budget", "100us", "--metrics", self.work / "metrics", "--sink", f"json:{self.work}/alarms.json", "--report", self.work / "report.json",
                                    *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (self.work / "metrics").exists() and monitor.poll() is None:
            time.sleep(0.02)
        return monitor

    def end_monitor(self, monitor):
        if monitor.poll() is None:
            monitor.send_signal(signal.SIGINT)
        _out, err = monitor.communicate(timeout=60)
        self.assertEqual(monitor.returncode, 0, err)
        with open(self.work / "alarms.json", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    # A file that has been deleted since, and one that is only in the process's own root: read as the process has them mapped.
    def test_files_that_only_the_process_has(self):
        for how, mount in (("deleted", "true"), ("mounted", "mount -t tmpfs none")):
            place = self.work / how
            place.mkdir(exist_ok=True)
            (self.work / "status").write_text("")
            (self.work / "ready.A3r").unlink(missing_ok=True)
            script = f"{mount} {place} && cp {self.work}/A3r {self.work}/libprobe.so {place} && exec {place}/A3r A3r"
            with subprocess.Popen(["unshare", "-m", "sh", "-c", script], env=dict(os.environ, ATTACK_READY=str(self.work / "ready"))) as victim:
                try:
                    while victim.poll() is None and f"{place}/A3r" not in pathlib.Path(f"/proc/{victim.pid}/maps").read_text(encoding="utf-8"):
                        time.sleep(0.01)
                    for file in place.iterdir():
                        file.unlink()
                    monitor = self.start_monitor("-p", str(victim.pid))
                    pacer = attacks.Pacer(monitor, self.work, ["A3r"], {})
                    pacer.start()
                    self.assertEqual(victim.wait(120), 42)
                finally:
                    victim.kill()
            pacer.over.set()
            pacer.join()
            told = self.end_monitor(monitor)
            self.assertIn("serve", {a["violation"]["from"]["symbol"].split("+")[0] for a in told if "P1" in a["policy_ids"]}, how)
            missing = json.loads((self.work / "report.json").read_text())["files_missing"]
            self.assertEqual([file for file in missing if str(place) in file], [], how)

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
            for name in places:
                (self.work / f"ready.{name}").unlink(missing_ok=True)
            monitor = self.start_monitor(*target, "--runtime-root", root, "--warm", self.work / "A3r")
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
            return self.end_monitor(monitor)
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
    main()
