"""What the live tests of brink cfi share: the attack programs, one monitored run of them, and patience.

Imported by the tests beside it, whose first argument is the build folder.
"""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "attacks"))
import run as attacks  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build").resolve()
BRINK = str(BUILD / "brink")


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

    def honest(self, script):
        """Runs a shell text watched with everything on; the report. No alarm is allowed."""
        alarms, report = self.work / "honest.json", self.work / "honest-report.json"
        alarms.unlink(missing_ok=True)  # sinks append
        done = subprocess.run([BRINK, "cfi", "run", "-q", "--every", "--repeats", "--switches", "-F", "200", "--sink", f"json:{alarms}", "--report", report, "--", "bash", "-c", script], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(alarms.read_text(), "false alarms:\n" + alarms.read_text())
        return json.loads(report.read_text())


def main():
    reason = why_not()
    if reason:
        print("SKIP " + reason)
        sys.exit(77)
    unittest.main(verbosity=2)
