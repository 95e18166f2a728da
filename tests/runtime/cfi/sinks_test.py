#!/usr/bin/python3
"""Every sink of brink cfi run: the same alarms at each.

  sinks_test.py BUILD [unittest arguments]
"""
import ctypes
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from live import Live, main, patient  # noqa: E402


@patient
class Sinks(Live):
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


if __name__ == "__main__":
    main()
