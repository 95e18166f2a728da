"""Debian kernels for the guests: found through the meta packages, unpacked into a cache, never installed.

The meta package's candidate names the newest kernel by its Depends, so a point release that renames everything
needs no change here. What was unpacked once is used again without network.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Unavailable(Exception):
    """The lane cannot run here; the text is the reason that a skip prints."""


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = os.path.join(base, "brink", "vm")
    os.makedirs(path, exist_ok=True)
    return path


def matrix():
    with open(os.path.join(ROOT, "tests/vm/matrix.json"), encoding="utf-8") as file:
        return json.load(file)


def find(name):
    for kernel in matrix()["kernels"]:
        if kernel["name"] == name:
            return kernel
    known = " ".join(k["name"] for k in matrix()["kernels"])
    raise SystemExit(f"vm: no kernel {name!r}; there are: {known}")


def host_arch():
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _apt(arch):
    """Options for apt: another architecture gets lists of its own, so that this system's set-up stays as it is."""
    # Without a user of its own apt works as whoever calls it; as root it would insist on its _apt user.
    options = ["-o", "APT::Sandbox::User=root"]
    if arch == host_arch():
        return options
    state = os.path.join(cache_dir(), "apt-" + arch)
    options += ["-o", f"APT::Architecture={arch}", "-o", f"APT::Architectures={arch}", "-o", f"Dir::State::Lists={state}/lists",
                "-o", f"Dir::Cache={state}/cache"]
    if not os.path.isdir(state + "/lists"):
        os.makedirs(state + "/lists/partial")
        os.makedirs(state + "/cache/archives/partial")
        subprocess.run(["apt-get", "update", "-qq", *options], capture_output=True, check=False)
    return options


def _show(package, arch):
    """The fields of the candidate of `package`, or nothing."""
    done = subprocess.run(["apt-cache", "show", "--no-all-versions", package, *_apt(arch)], capture_output=True, text=True)
    fields = {}
    for line in done.stdout.splitlines():
        key, sep, value = line.partition(": ")
        if sep and key not in fields and not line.startswith(" "):
            fields[key] = value
    return fields


def _depends(package, arch):
    names = [re.split(r"[ (|]", d.strip())[0] for d in _show(package, arch).get("Depends", "").split(",")]
    return [n for n in names if n]


def _resolve(kernel):
    """Package names of one kernel: the image, and what building a module against it needs."""
    arch, meta = kernel["arch"], f"linux-image-{kernel['meta']}"
    image = next((n for n in _depends(meta, arch) if re.fullmatch(r"linux-image-\d.*", n)), None)
    if not image:
        raise Unavailable(f"apt knows no candidate of {meta} (run apt-get update)")
    headers = image.replace("linux-image-", "linux-headers-", 1)
    more = [n for n in _depends(headers, arch) if re.match(r"linux-(headers|kbuild)-", n)]
    if len(more) < 2:
        raise Unavailable(f"apt knows no {headers} for {image} (run apt-get update)")
    return {"release": image[len("linux-image-"):], "version": _show(image, arch)["Version"], "image": [image],
            "headers": [headers] + [n for n in more if "kbuild" not in n], "kbuild": [n for n in more if "kbuild" in n]}


def _unpack(packages, target, arch):
    """Downloads and unpacks; the finished folder appears at once, under its final name."""
    if os.path.isdir(target):
        return
    parent = os.path.dirname(target)
    os.makedirs(parent, exist_ok=True)
    work = tempfile.mkdtemp(dir=parent, prefix=".unpack-")
    try:
        fetch = subprocess.run(["apt-get", "download", "-q", *_apt(arch), *packages], cwd=work, capture_output=True, text=True)
        debs = [f for f in os.listdir(work) if f.endswith(".deb")]
        if fetch.returncode or len(debs) < len(packages):
            last = (fetch.stderr.strip().splitlines() or ["no output"])[-1]
            raise Unavailable(f"apt-get download {' '.join(packages)}: {last}")
        tree = os.path.join(work, "tree")
        for deb in debs:
            subprocess.run(["dpkg", "-x", os.path.join(work, deb), tree], check=True)
        os.rename(tree, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _remembered(kernel):
    path = os.path.join(cache_dir(), kernel["meta"] + "-" + kernel["arch"] + ".json")
    try:
        with open(path, encoding="utf-8") as file:
            return path, json.load(file)
    except (OSError, ValueError):
        return path, None


def get(kernel, headers=False):
    """{release, version, image: folder, vmlinuz: file[, headers: folder]} of a matrix row; raises Unavailable."""
    with open(os.path.join(cache_dir(), ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path, remembered = _remembered(kernel)
        try:
            if not shutil.which("apt-cache") or not shutil.which("dpkg"):
                raise Unavailable("no apt here, and kernels come from Debian packages")
            names = _resolve(kernel)
            found = _get(kernel, names, headers)
        except Unavailable as reason:
            if not remembered:
                raise
            try:
                found = _get(kernel, remembered, headers)
            except Unavailable:
                raise reason from None
            names = remembered
        if names != remembered:
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(names, file)
            os.replace(path + ".new", path)
        return found


def _get(kernel, names, headers):
    arch = kernel["arch"]
    base = os.path.join(cache_dir(), f"{names['release']}_{names['version']}_{arch}".replace("~", "."))
    _unpack(names["image"], os.path.join(base, "image"), arch)
    found = {"release": names["release"], "version": names["version"], "image": os.path.join(base, "image"),
             "vmlinuz": os.path.join(base, "image", "boot", "vmlinuz-" + names["release"])}
    if headers:
        found["headers"] = os.path.join(base, "headers")
        if not os.path.isdir(found["headers"]):
            # kbuild holds programs for the machine that builds.
            _unpack(names["kbuild"], os.path.join(base, "kbuild"), host_arch())
            _unpack(names["headers"], os.path.join(base, "headers.new"), arch)
            shutil.copytree(os.path.join(base, "kbuild"), os.path.join(base, "headers.new"), symlinks=True, dirs_exist_ok=True)
            os.rename(os.path.join(base, "headers.new"), found["headers"])
    return found


def packages(names, arch):
    """A folder with the contents of these packages, as they lie in a system's root; raises Unavailable."""
    digest = hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:16]
    folder = os.path.join(cache_dir(), f"packages-{arch}-{digest}")
    with open(os.path.join(cache_dir(), ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _unpack(names, folder, arch)
    return folder


def busybox(arch):
    """Path of a static busybox; another architecture's comes from its package."""
    if arch == host_arch():
        found = shutil.which("busybox")
        if not found:
            raise Unavailable("no busybox (package busybox-static)")
        return found
    folder = os.path.join(cache_dir(), "busybox-" + arch)
    _unpack(["busybox-static"], folder, arch)
    return os.path.join(folder, "bin/busybox")
