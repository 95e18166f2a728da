#!/usr/bin/python3
"""Configures the tree as on a host without clang and bpftool: with prebuilt skeletons, and without."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, CC, CXX = sys.argv[1:5]


def configure(folder, *more):
    # A value that CMake takes for false: found nothing, and it does not look again.
    words = ["cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}",
             "-DBRINK_TESTS=OFF", "-DBPF_CLANG=OFF", "-DBPFTOOL=OFF", *more]
    return subprocess.run(words, capture_output=True, text=True)


class Prebuilt(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="brink-prebuilt-")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_skeletons_from_elsewhere_need_no_clang(self):
        skeletons = os.path.join(self.folder, "skeletons")
        os.mkdir(skeletons)
        names = [n for n in os.listdir(os.path.join(BUILD, "bpf")) if n.endswith(".skel.h")]
        self.assertGreater(len(names), 3)
        for name in names:
            shutil.copy(os.path.join(BUILD, "bpf", name), skeletons)
        tree = os.path.join(self.folder, "tree")
        run = configure(tree, f"-DBRINK_PREBUILT_SKELETONS={skeletons}")
        self.assertEqual(run.returncode, 0, run.stderr)
        commands = subprocess.run(["ninja", "-C", tree, "-t", "commands", "brink"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("-target bpf", commands)
        self.assertNotIn("bpftool", commands)
        # One file that includes a skeleton, compiled from the copies.
        build = subprocess.run(["ninja", "-C", tree, "src/session/CMakeFiles/brink_session.dir/event_source.cc.o"], capture_output=True, text=True)
        self.assertEqual(build.returncode, 0, build.stdout[-2000:])

    def test_without_both_it_says_what_to_do(self):
        run = configure(os.path.join(self.folder, "tree"))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("BRINK_PREBUILT_SKELETONS", run.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
