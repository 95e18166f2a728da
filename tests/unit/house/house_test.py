#!/usr/bin/python3
"""House rules that a machine can check: module dependencies without cycles, small files, nothing unfinished."""
import collections
import os
import re
import subprocess
import sys
import unittest

ROOT = sys.argv.pop(1) if len(sys.argv) > 1 else os.getcwd()
CODE = re.compile(r"\.(h|cc|c|hpp|py|sh)$")
LIMITS = ((".h", 400), (".cc", 600), (".c", 600))


def tracked():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return listed.stdout.splitlines()
    found = []
    for folder, _, names in os.walk(ROOT):
        if "/build" in folder or "/.git" in folder:
            continue
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return found


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


class House(unittest.TestCase):
    files = [f for f in tracked() if os.path.isfile(os.path.join(ROOT, f))]

    def test_modules_depend_one_way(self):
        uses = collections.defaultdict(set)
        modules = {f.split("/")[1] for f in self.files if f.startswith("src/") and f.count("/") > 1}
        for path in self.files:
            parts = path.split("/")
            if parts[0] != "src" or len(parts) < 3 or not CODE.search(path):
                continue
            for included in re.findall(r'#include "([a-z_0-9]+)/', text(path)):
                if included in modules and included != parts[1]:
                    uses[parts[1]].add(included)
        for module, used in uses.items():
            self.assertNotIn("cli", used, f"{module} includes cli")
        done, path = set(), []

        def visit(module):
            self.assertNotIn(module, path, "cycle: " + " -> ".join(path + [module]))
            if module in done:
                return
            path.append(module)
            for used in sorted(uses[module]):
                visit(used)
            path.pop()
            done.add(module)

        for module in sorted(modules):
            visit(module)

    def test_files_are_small_rooms(self):
        for path in self.files:
            if path.split("/")[0] not in ("src", "bpf", "include"):
                continue
            for suffix, limit in LIMITS:
                if path.endswith(suffix):
                    lines = text(path).count("\n")
                    self.assertLessEqual(lines, limit, f"{path} has {lines} lines: split it by meaning")

    def test_nothing_is_marked_unfinished(self):
        mark = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|not imple" r"mented)\b", re.IGNORECASE)
        for path in self.files:
            if path.split("/")[0] in ("src", "bpf", "include", "tests", "tools") and CODE.search(path):
                for number, line in enumerate(text(path).splitlines(), 1):
                    self.assertIsNone(mark.search(line), f"{path}:{number}: {line.strip()}")

    def test_no_test_is_switched_off(self):
        for path in self.files:
            if path.startswith("tests/") and path.endswith(".cc"):
                self.assertNotIn("DISABLED" + "_", text(path), path)

    def test_abi_headers_are_plain_c(self):
        for path in self.files:
            if path.startswith("include/brink/abi/"):
                for included in re.findall(r"#include [<\"]([^>\"]+)", text(path)):
                    self.assertTrue(included == "linux/types.h" or included.startswith("brink/abi/"), f"{path}: {included}")

    def test_troubleshooting_quotes_what_is_printed(self):
        # Adjacent literals are one text to the compiler, so they are one here.
        printed = "\n".join(re.sub(r'"\s*\n\s*"', "", text(f)) for f in self.files if f.startswith("src/"))
        lines = re.findall(r"^### `(.*)`$", text("docs/troubleshooting.md"), re.M)
        self.assertGreater(len(lines), 20)
        missing = [line for line in lines if line not in printed]
        self.assertEqual(missing, [], "docs/troubleshooting.md quotes what no source prints")

    def test_links_of_the_documents_lead_somewhere(self):
        for path in (f for f in self.files if f.endswith(".md")):
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(path)):
                place = os.path.join(ROOT, os.path.dirname(path), target)
                self.assertTrue(os.path.exists(place), f"{path}: {target}")


if __name__ == "__main__":
    unittest.main()
