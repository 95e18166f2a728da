#!/usr/bin/python3
"""Runs what brink does with threads under ThreadSanitizer, on real programs, and stops it at many moments.

  races.py BRINK [PART...]     BRINK is of a TSan build; parts by name, default all
  BRINK_LONG=1                 200 moments of SIGINT instead of 20

A run fails where TSan reports, where a status means nothing, or where it does not end within two minutes. Status 77: this
machine cannot record (brink doctor).
"""
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BRINK = os.path.abspath(sys.argv[1])
ONLY = sys.argv[2:]
WORK = "i=0; while [ $i -lt %d ]; do i=$((i+1)); done; /bin/true; ls / > /dev/null"
SHELL = ["/bin/sh", "-c", WORK % 60000]
THREADS = ["/usr/bin/python3", "-c", """
import threading, time
end = time.time() + 1.5
def work():
    while time.time() < end: sum(range(2000))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]"""]


PROGRAM = """
__attribute__((noinline)) int work(int n) { volatile int s = 0; for (int i = 0; i < n; ++i) s += i % 7; return s; }
int main(void) { for (int i = 0; i < 200; ++i) work(50); return 0; }
"""


class Runs:
    def __init__(self, folder):
        self.folder, self.failed, self.rows = folder, [], []
        self.count = 0

    def environment(self):
        self.count += 1
        self.log = os.path.join(self.folder, f"tsan{self.count}")
        return dict(os.environ, TSAN_OPTIONS=f"exitcode=66 second_deadlock_stack=1 log_path={self.log}")

    @staticmethod
    def end(process):
        """What it started too: it leads a session of its own."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def start(self, words, env, **more):
        return subprocess.Popen([BRINK, *words], cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, **more)

    def judge(self, name, status, ok, log, text=""):
        reports = "".join(open(path, encoding="utf-8", errors="replace").read() for path in glob.glob(log + ".*"))
        races = reports.count("WARNING: ThreadSanitizer")
        if races or status not in ok:
            self.failed.append(f"{name}: status {status}, {races} reports\n{text[-600:]}{reports[:4000]}")
        return races

    def run(self, name, *words, ok=(0, 3)):
        if ONLY and not any(part in name for part in ONLY):
            return
        env, log = self.environment(), self.log
        begin = time.monotonic()
        process = self.start(words, env, stdout=subprocess.DEVNULL)
        try:
            text, status = process.communicate(timeout=120)[1].decode(errors="replace"), process.returncode
        except subprocess.TimeoutExpired:
            status, text = "none within two minutes", ""
        finally:
            self.end(process)
        races = self.judge(name, status, ok, log, text)
        self.rows.append((name, 1, races, time.monotonic() - begin))

    def stopped(self, name, moments, *words):
        if ONLY and not any(part in name for part in ONLY):
            return
        begin, races = time.monotonic(), 0
        for _ in range(moments):
            env, log = self.environment(), self.log
            process = self.start(words, env, stdout=subprocess.DEVNULL)
            time.sleep(random.uniform(0.05, 2.0))
            process.send_signal(signal.SIGINT)
            try:
                text = process.communicate(timeout=120)[1].decode(errors="replace")
                status = process.returncode
            except subprocess.TimeoutExpired:
                status, text = "none within two minutes", ""
            finally:
                self.end(process)
            # Before it listens it ends as any program does.
            races += self.judge(name, status, (0, 3, 130, -signal.SIGINT), log, text)
        self.rows.append((name, moments, races, time.monotonic() - begin))


def agent(runs):
    name = "agent and ctl"
    if ONLY and not any(part in name for part in ONLY):
        return
    env, log, begin = runs.environment(), runs.log, time.monotonic()
    path = os.path.join(runs.folder, "a.sock")
    busy = subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"])
    process = runs.start(["agent", "--socket", path, "--dir", os.path.join(runs.folder, "files"), "--window", "2s"], env, stdout=subprocess.DEVNULL)
    clients, ctl, pid, text, status = [], ("ctl", "--socket", path), str(busy.pid), "", "none within two minutes"
    try:
        for _ in range(600):
            try:
                with socket.socket(socket.AF_UNIX) as ready:
                    ready.connect(path)
                break
            except OSError:
                time.sleep(0.1)
        clients = [runs.start([*ctl, *words], env, stdout=subprocess.DEVNULL)
                   for words in (("start", "record", "--source", "walk", "-F", "499", "-p", pid, "--duration", "20s"), ("snap", "--on", "sample:99", "-p", pid, "--count", "20"),
                                 ("start", "snap", "--on", "syscall:getppid", "-p", pid, "--duration", "2s"), ("status",), ("dump",))]
        time.sleep(4)
        clients += [runs.start([*ctl, *words], env, stdout=subprocess.DEVNULL) for words in (("status",), ("dump",), ("stop", "1"), ("status",))]
        # Two dumps of one second want the same name, and which job has which number is chance.
        refused = [client.args[4:] for client in clients if client.wait(timeout=120) != 0 and client.args[4] not in ("dump", "stop")]
        if refused:
            runs.failed.append(f"{name}: refused: {refused}")
        process.send_signal(signal.SIGTERM)
        text, status = process.communicate(timeout=120)[1].decode(errors="replace"), process.returncode
    except subprocess.TimeoutExpired:
        pass
    finally:
        for each in (*clients, process):
            runs.end(each)
        busy.kill()
        busy.wait()
    races = runs.judge(name, status, (0,), log, text)
    runs.rows.append((name, 1, races, time.monotonic() - begin))


def missing():
    """What brink doctor says is missing here to record."""
    done = subprocess.run([BRINK, "doctor", "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    features = {feature["name"]: feature for feature in json.loads(done.stdout)["features"]}
    return [f"{name}: {features[name]['reason']}" for name in ("bpf.perf_event", "perf.cpu_clock", "source.walk") if not features[name]["on"]]


def main():
    if lacks := missing():
        print("skipped: " + "; ".join(lacks))
        return 77
    random.seed(9)
    folder = tempfile.mkdtemp(prefix="brink-races-")
    runs = Runs(folder)
    moments = 200 if os.environ.get("BRINK_LONG") else 20
    try:
        for source in ("none", "walk", "step", "hop"):
            runs.run(f"record {source}", "record", "--source", source, "-F", "2000", "-g", "-o", "t.data", "--", *SHELL)
        for source in ("none", "walk"):
            runs.run(f"record {source}, threads", "record", "--source", source, "-F", "999", "-o", "t.data", "--", *THREADS)
        runs.run("record, rotating", "record", "--source", "walk", "-F", "2000", "--rotate", "64K", "--rotate-keep", "3", "-z", "-o", "t.data", "--", *SHELL)
        runs.run("record, aggregate", "record", "--source", "walk", "-F", "2000", "--aggregate", "-o", "t.agg", "--", *SHELL)
        runs.run("record, few buffers", "record", "--source", "walk", "-F", "4000", "--buffers", "2", "--buffer-size", "64K", "-o", "t.data", "--", *SHELL)
        runs.run("snap", "snap", "--on", "syscall:openat", "--on", "exec", "--on", "sample:499", "--history", "--", *SHELL)
        program = os.path.join(folder, "work")
        built = subprocess.run(["gcc", "-g", "-O1", "-x", "c", "-o", program, "-"], input=PROGRAM, text=True, check=False)
        if built.returncode == 0:
            for source in ("walk", "step"):
                runs.run(f"snap, span {source}", "snap", "--trace-between", program + ":work", "--source", source, "--", program)
        runs.run("latency", "latency", "-q", "-t", "4", "-i", "300", "-l", "1000", "--blame")
        runs.run("latency watch", "latency", "watch", "-p", str(os.getppid()), "-D", "2")
        runs.run("latency busy", "latency", "busy", "-D", "2")
        runs.run("cfi", "cfi", "run", "--check=all", "--", *SHELL)
        runs.run("cfi learn", "cfi", "learn", "-o", "learned", "--", *SHELL)
        runs.run("report", "report", "-i", "t.data", "-t", "branches,functions", ok=(0, 1, 3))
        agent(runs)
        runs.stopped("record walk, stopped", moments // 2, "record", "--source", "walk", "-F", "2000", "-o", "s.data", "--", "/bin/sh", "-c", "while :; do :; done")
        runs.stopped("snap, stopped", moments // 4, "snap", "--on", "syscall:openat", "--on", "sample:499", "--", "/bin/sh", "-c", "while :; do ls > /dev/null; done")
        runs.stopped("latency, stopped", moments // 8, "latency", "-q", "-t", "4", "-i", "300", "--blame")
        runs.stopped("cfi, stopped", moments // 8, "cfi", "run", "--", "/bin/sh", "-c", "while :; do ls > /dev/null; done")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| what | runs | reports | seconds |\n|---|---|---|---|")
    for name, count, races, seconds in runs.rows:
        print(f"| {name} | {count} | {races} | {seconds:.0f} |")
    for text in runs.failed:
        print("FAILED " + text)
    return 1 if runs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
