"""A program in the background that says on standard error when it is armed: what benches measure beside."""

import os
import signal
import subprocess
import threading
import time


class Armed:
    """A tracer in the background; `ready` is what it says once it is armed."""

    def __init__(self, argv, ready, settle=0.0):
        self.argv = argv
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said = ""
        while ready not in self.said:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError(f"{' '.join(argv)}: {self.said.strip()[-300:]}")
            self.said += line
        threading.Thread(target=self.discard, daemon=True).start()
        time.sleep(settle)

    def discard(self):
        while os.read(self.process.stderr.fileno(), 1 << 16):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
