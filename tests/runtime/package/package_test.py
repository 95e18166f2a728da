#!/usr/bin/python3
"""The packages: what is in them, that they install, upgrade and leave nothing behind, that their bytes are the same twice.

With BRINK_LONG=1 also the tarball, a Debian root made by debootstrap, and two whole builds compared."""
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE, BUILD = sys.argv[1:3]
PACKAGE = os.path.join(SOURCE, "tools/package")
LONG = bool(os.environ.get("BRINK_LONG"))
ROOT_ONLY = unittest.skipUnless(os.geteuid() == 0, "needs root: dpkg and chroot")


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="brink-package-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.deb = cls.make("deb", "one")

    @classmethod
    def make(cls, form, folder):
        out = os.path.join(cls.folder, folder)
        return run(PACKAGE, form, "--build", BUILD, "--out", out).split()[-1]

    def test_the_deb_holds_program_manual_completions_and_documents(self):
        listing = run("dpkg-deb", "--contents", self.deb)
        paths = {line.split()[5].lstrip(".") for line in listing.splitlines()}
        for path in ("/usr/bin/brink", "/usr/share/doc/brink/copyright", "/usr/share/doc/brink/README.md", "/usr/share/doc/brink/examples/daemonset.yaml",
                     "/usr/share/doc/brink/docs/pipeline.md", "/usr/lib/systemd/system/brink-agent.service"):
            self.assertIn(path, paths)
        if shutil.which("scdoc"):
            commands = run(os.path.join(BUILD, "brink"), "--version").rpartition("commands: ")[2].split()
            self.assertGreater(len(commands), 10)
            for command in commands:
                self.assertIn(f"/usr/share/man/man1/brink-{command}.1.gz", paths)
            for path in ("/usr/share/man/man1/brink.1.gz", "/usr/share/bash-completion/completions/brink", "/usr/share/zsh/site-functions/_brink",
                         "/usr/share/fish/vendor_completions.d/brink.fish"):
                self.assertIn(path, paths)
        owners = {line.split()[1] for line in listing.splitlines()}
        self.assertEqual(owners, {"root/root"})
        with open(os.path.join(SOURCE, "packaging/changelog"), encoding="utf-8") as file:
            version = re.match(r"brink \((\S+)\)", file.readline()).group(1)
        control = run("dpkg-deb", "--field", self.deb)
        self.assertIn(f"\nVersion: {version}\n", control)
        for package in ("libc6", "libbpf1", "libdw1", "libzydis4.0"):
            self.assertRegex(control, rf"(?m)^Depends:.*\b{re.escape(package)}\b")

    def test_the_same_bytes_twice(self):
        for form, first in (("deb", self.deb), ("sbom", None), ("oci", None)):
            first = first or self.make(form, "one")
            with open(first, "rb") as one, open(self.make(form, "two"), "rb") as two:
                self.assertEqual(hashlib.sha256(one.read()).digest(), hashlib.sha256(two.read()).digest(), form)

    @unittest.skipUnless(shutil.which("lintian"), "needs lintian")
    def test_lintian_finds_no_error(self):
        run("lintian", "--allow-root", "--fail-on", "error", self.deb)

    @ROOT_ONLY
    def test_install_upgrade_and_purge_leave_nothing(self):
        root = os.path.join(self.folder, "root")
        admin = os.path.join(root, "var/lib/dpkg")
        for folder in ("info", "updates", "triggers"):
            os.makedirs(os.path.join(admin, folder))
        for name in ("status", "available"):
            open(os.path.join(admin, name), "w", encoding="ascii").close()

        def files():
            return {os.path.join(path, name) for path, _, names in os.walk(root) for name in names if not path.startswith(admin)}

        def dpkg(*words):
            # The scratch root has no other packages, so nothing that brink depends on.
            run("dpkg", "--force-depends", f"--instdir={root}", f"--admindir={admin}", "--log=/dev/null", *words)

        before = files()
        dpkg("--install", self.deb)
        installed = files()
        self.assertIn(os.path.join(root, "usr/bin/brink"), installed)
        self.assertEqual(run(os.path.join(root, "usr/bin/brink"), "--version").splitlines()[0], run(os.path.join(BUILD, "brink"), "--version").splitlines()[0])
        # The next version: the same content under a higher number, with one file less.
        work = os.path.join(self.folder, "next")
        run("dpkg-deb", "--raw-extract", self.deb, work)
        os.unlink(os.path.join(work, "usr/share/doc/brink/README.md"))
        control = os.path.join(work, "DEBIAN/control")
        with open(control, encoding="utf-8") as file:
            text = file.read()
        with open(control, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^Version: .*$", "Version: 99.0", text))
        newer = os.path.join(self.folder, "newer.deb")
        run("dpkg-deb", "--root-owner-group", "-Znone", "--build", work, newer)
        dpkg("--install", newer)
        self.assertEqual(installed - files(), {os.path.join(root, "usr/share/doc/brink/README.md")})
        self.assertEqual(files() - installed, set())
        dpkg("--remove", "brink")
        dpkg("--purge", "brink")
        self.assertEqual(files(), before)

    def test_sbom_names_every_library(self):
        with open(self.make("sbom", "sbom"), encoding="utf-8") as file:
            document = json.load(file)
        names = {package["name"] for package in document["packages"]}
        self.assertLessEqual({"brink", "libc6", "libbpf1", "libdw1", "libelf1", "libzydis4.0", "libzstd1", "nlohmann-json3-dev"}, names)
        ids = {package["SPDXID"] for package in document["packages"]}
        self.assertEqual({r["relatedSpdxElement"] for r in document["relationships"]}, ids)
        self.assertEqual(len(ids), len(document["packages"]))
        for package in document["packages"]:
            self.assertTrue(package["versionInfo"])
        build_id = re.search(r"^build-id: (\w+)$", run(os.path.join(BUILD, "brink"), "--version"), re.M).group(1)
        self.assertIn(build_id, run("readelf", "-n", os.path.join(BUILD, "brink")))
        self.assertIn(build_id, document["packages"][0]["sourceInfo"])

    def test_the_sbom_fits_its_schema(self):
        try:
            import jsonschema
        except ImportError as missing:
            self.skipTest(f"needs {missing.name} (python3-jsonschema)")
        with open(self.make("sbom", "sbom"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(SOURCE, "tests/runtime/package/spdx.schema.json"), encoding="utf-8") as file:
            checker = jsonschema.Draft202012Validator(json.load(file))
        self.assertEqual([error.message for error in checker.iter_errors(json.loads(text))], [])
        # It would not pass with a mistake in it.
        for right, wrong in (('"SPDX-2.3"', '"SPDX-2"'), ('"SPDXRef-brink"', '"SPDXRef-brink_1"'), ('"PACKAGE-MANAGER"', '"PACKAGE_MANAGER"'), ('"DESCRIBES"', '"DESCRIBE"'),
                             ('Z",', '",'), ('"Tool: ', '"'), ('"SHA256"', '"sha256"'), ('"downloadLocation"', '"downloadlocation"')):
            self.assertIn(right, text)
            self.assertNotEqual(list(checker.iter_errors(json.loads(text.replace(right, wrong, 1)))), [], wrong)

    def test_the_image_is_whole_and_runs(self):
        with tarfile.open(self.make("oci", "oci")) as archive:
            blobs = {m.name: archive.extractfile(m).read() for m in archive if m.isreg()}

        def blob(described):
            data = blobs["blobs/" + described["digest"].replace(":", "/")]
            self.assertEqual("sha256:" + hashlib.sha256(data).hexdigest(), described["digest"])
            self.assertEqual(len(data), described["size"])
            return data

        manifest = json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        layer = gzip.decompress(blob(manifest["layers"][0]))
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(layer).hexdigest()])
        self.assertEqual(config["config"]["Entrypoint"], ["/usr/bin/brink"])
        if os.geteuid() != 0:
            self.skipTest("needs root: chroot")
        root = os.path.join(self.folder, "image")
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            archive.extractall(root)
        self.assertEqual(run("chroot", root, "/usr/bin/brink", "--version"), run(os.path.join(BUILD, "brink"), "--version"))

    def test_the_daemonset_asks_for_what_recording_needs_and_no_more(self):
        with open(os.path.join(SOURCE, "packaging/daemonset.yaml"), encoding="utf-8") as file:
            text = file.read()
        asked = set(re.findall(r"^ {16}- ([A-Z_]+)", text, re.M))
        with open(os.path.join(SOURCE, "src/kernel/privileges.cc"), encoding="utf-8") as file:
            known = set(re.findall(r"CAP_([A-Z_]+)", file.read()))
        self.assertLessEqual({"BPF", "PERFMON"}, asked)
        self.assertLessEqual(asked, known)
        self.assertNotIn("privileged", re.sub(r"#.*", "", text))
        # The command is one that this brink accepts: all but the file's place, which is the node's.
        args = [word.strip('" ') for word in re.search(r"args: \[(.*)\]", text).group(1).split(",")]
        self.assertEqual(args[0], "record")
        args[args.index("-o") + 1] = "/no/such/folder/brink.data"
        done = subprocess.run([os.path.join(BUILD, "brink"), *args, "--source", "none"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, "/no/such/folder" in done.stderr), (1, True), done.stderr)

    def test_the_daemonset_fits_its_schema(self):
        try:
            import jsonschema
            import yaml
        except ImportError as missing:
            self.skipTest(f"needs {missing.name} (python3-yaml, python3-jsonschema)")
        with open(os.path.join(SOURCE, "packaging/daemonset.yaml"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(SOURCE, "tests/runtime/package/daemonset.schema.json"), encoding="utf-8") as file:
            checker = jsonschema.Draft202012Validator(json.load(file))

        def problems(document):
            found = [error.message for error in checker.iter_errors(document)]
            pod = document["spec"]["template"]
            if not document["spec"]["selector"]["matchLabels"].items() <= pod["metadata"].get("labels", {}).items():
                found.append("the selector finds no pod")
            volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
            found += [f"{mount['name']} is no volume" for c in pod["spec"]["containers"] for mount in c.get("volumeMounts", []) if mount["name"] not in volumes]
            return found

        self.assertEqual(problems(yaml.safe_load(text)), [])
        # It would not pass with a mistake in it.
        for right, wrong in (("hostPID: true", "hostPid: true"), ("drop: [ALL]", "drop: ALL"), ("- BPF ", "- CAP_BPF "), ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"),
                             ('"49"', "49"), ("name: tracefs,", "name: tracing,"), ("memory: 512Mi", "memory: 512MB"), ("type: RollingUpdate", "type: Rolling")):
            self.assertIn(right, text)
            self.assertNotEqual(problems(yaml.safe_load(text.replace(right, wrong, 1))), [], wrong)

    @unittest.skipUnless(LONG, "a build of its own: BRINK_LONG=1")
    def test_the_tarball_runs_with_its_own_libraries(self):
        with tarfile.open(self.make("tarball", "tarball")) as archive:
            archive.extractall(os.path.join(self.folder, "unpacked"))
        (top,) = os.listdir(os.path.join(self.folder, "unpacked"))
        program = os.path.join(self.folder, "unpacked", top, "bin/brink")
        foreign = [line for line in run("ldd", program).splitlines() if not re.search(r"vdso|ld-linux|/lib(c|m)\.so|" + re.escape(self.folder), line)]
        self.assertEqual(foreign, [])
        self.assertEqual(os.listdir(os.path.join(self.folder, "unpacked", top, "lib/brink")), ["libZydis.so.4.0"])
        self.assertIn("brink ", run(program, "--version"))
        if not shutil.which("debootstrap") or os.geteuid() != 0:
            self.skipTest("another distribution needs debootstrap and root")
        root = os.path.join(self.folder, "other")
        run("debootstrap", "--variant=minbase", "trixie", root)
        shutil.move(os.path.join(self.folder, "unpacked", top), os.path.join(root, "opt/brink"))
        # With the kernel's file systems, in a mount namespace that ends with it.
        script = f"""set -e; mount -t proc proc {root}/proc; mount --rbind /sys {root}/sys; mount --rbind /dev {root}/dev
            exec chroot {root} sh -ec '/opt/brink/bin/brink record -q -F 997 --walk-share 2 -o /x.data -- sh -c "i=0; while [ \\$i -lt 200000 ]; do i=\\$((i+1)); done"
                                       /opt/brink/bin/brink report -i /x.data -n 5'"""
        report = run("unshare", "-m", "--propagation", "private", "sh", "-c", script)
        self.assertRegex(report, r"(?m)^ *\d+\.\d+% .* dash$")

    @unittest.skipUnless(LONG and shutil.which("debootstrap"), "needs BRINK_LONG=1 and debootstrap")
    @ROOT_ONLY
    def test_apt_installs_it_in_a_fresh_debian(self):
        root = os.path.join(self.folder, "debian")
        run("debootstrap", "--variant=minbase", "bookworm", root)
        shutil.copy(self.deb, os.path.join(root, "tmp/brink.deb"))
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        run("chroot", root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "/tmp/brink.deb", env=quiet)
        self.assertIn("brink ", run("chroot", root, "brink", "--version"))
        run("chroot", root, "apt-get", "install", "-y", "-qq", "--reinstall", "/tmp/brink.deb", env=quiet)
        run("chroot", root, "apt-get", "purge", "-y", "-qq", "brink", env=quiet)
        self.assertFalse(os.path.exists(os.path.join(root, "usr/bin/brink")))
        self.assertFalse(os.path.exists(os.path.join(root, "usr/share/doc/brink")))

    @unittest.skipUnless(LONG, "two builds: BRINK_LONG=1")
    def test_two_builds_in_two_folders_are_the_same(self):
        self.assertIn("reproducible", run(PACKAGE, "check-reproducible", "--build", BUILD))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
