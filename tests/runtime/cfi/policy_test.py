#!/usr/bin/python3
"""Policy files of brink cfi run on real processes.

  policy_test.py BUILD [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
from live import BRINK, Live, main, patient  # noqa: E402


@patient
class PolicyFiles(Live):
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
        # What the entry of an added call may say is said by its end.
        _status, alarms, report = self.run_attacks(["A1r"], "--policy", path, "--calls", "read")
        self.assertIn(("syscall_exit", "read"), {(a["hook"]["point"], a["hook"]["syscall"]) for a in alarms["A1r"] if a["severity"] != "low"})

    # By the user of the check, who is known when the process has long gone.
    def test_an_entry_for_a_user_holds_for_processes_that_have_gone(self):
        path = self.policy("  - {name: a, match: {uid: 0}, check: none}\n")
        report = self.work / "uid.json"
        done = subprocess.run([BRINK, "cfi", "run", "-q", "--repeats", "--share", "100", "--policy", path, "--report", report, "--", "sh", "-c", "for i in $(seq 60); do /bin/true; done"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = json.loads(report.read_text())
        self.assertGreater(counts["left_out"], 60)
        self.assertEqual(counts["windows"], 0)

    # Snapshots that could not be written would only be missed after the attack.
    def test_a_folder_for_snapshots_must_be_there(self):
        done = subprocess.run([BRINK, "cfi", "run", "-q", "--snapshots", self.work / "nowhere", "--", "true"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--snapshots", done.stderr)

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


if __name__ == "__main__":
    main()
