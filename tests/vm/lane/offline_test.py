#!/usr/bin/python3
"""Without network: a filled cache is enough, an empty one makes the lane skip with its reason."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
VM = os.path.join(ROOT, "tools/vm")
KERNEL = "6.1"


class Offline(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.tools = os.path.join(self.work.name, "bin")
        os.mkdir(self.tools)
        self.tool("apt-cache", "exit 100")
        self.tool("apt-get", "echo 'E: Could not resolve deb.debian.org' >&2; exit 100")

    def tool(self, name, body):
        path = os.path.join(self.tools, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, 0o755)

    def vm(self, *words):
        env = dict(os.environ, PATH=self.tools + ":" + os.environ["PATH"], XDG_CACHE_HOME=os.path.join(self.work.name, "cache"))
        return subprocess.run([VM, *words], env=env, capture_output=True, text=True)

    def fill(self):
        """A cache as a former run leaves it, with an empty kernel in it."""
        folder = os.path.join(self.work.name, "cache/brink/vm")
        boot = os.path.join(folder, "6.1.0-99-cloud-amd64_6.1.999-1_amd64/image/boot")
        os.makedirs(boot)
        open(os.path.join(boot, "vmlinuz-6.1.0-99-cloud-amd64"), "wb").close()
        with open(os.path.join(folder, "cloud-amd64-amd64.json"), "w", encoding="utf-8") as file:
            json.dump({"release": "6.1.0-99-cloud-amd64", "version": "6.1.999-1", "image": ["linux-image-x"], "headers": []}, file)

    def test_an_empty_cache_skips_and_says_why(self):
        done = self.vm("run", "--kernel", KERNEL, "--", "true")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("vm: skipped: apt knows no candidate of linux-image-cloud-amd64", done.stderr)

    def test_a_filled_cache_is_used(self):
        self.fill()
        self.assertIn("6.1.0-99-cloud-amd64 (6.1.999-1)", self.vm("list").stdout)

    def test_a_failed_download_is_the_reason(self):
        self.tool("apt-cache", "echo 'Version: 6.1.1-1'; echo 'Depends: linux-image-6.1.0-1-cloud-amd64 (= 6.1.1-1), "
                  "linux-headers-6.1.0-1-common, linux-kbuild-6.1'")
        done = self.vm("run", "--kernel", KERNEL, "--", "true")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("Could not resolve deb.debian.org", done.stderr)

    def test_a_failed_download_falls_back_to_the_kernel_at_hand(self):
        self.fill()
        self.tool("apt-cache", "echo 'Version: 6.1.1-1'; echo 'Depends: linux-image-6.1.0-1-cloud-amd64 (= 6.1.1-1), "
                  "linux-headers-6.1.0-1-common, linux-kbuild-6.1'")
        self.assertIn("6.1.0-99-cloud-amd64 (6.1.999-1)", self.vm("list").stdout)

    def test_unknown_names_are_told(self):
        done = self.vm("run", "--kernel", "5.4", "--", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no kernel '5.4'; there are: 6.1 6.12", done.stderr)


if __name__ == "__main__":
    unittest.main()
