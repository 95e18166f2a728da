"""Debian kernels for the guests: found through the meta packages, unpacked into a cache, never installed.

The meta package's candidate names the newest kernel by its Depends, so a point release that renames everything
needs no change here. What was unpacked once is used again without network.
"""

import fcntl
import json
import os
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


def _show(package):
    """The fields of the candidate of `package`, or nothing."""
    done = subprocess.run(["apt-cache", "show", "--no-all-versions", package], capture_output=True, text=True)
    fields = {}
    for line in done.stdout.splitlines():
        key, sep, value = line.partition(": ")
        if sep and key not in fields and not line.startswith(" "):
            fields[key] = value
    return fields


def _depends(package):
    names = [re.split(r"[ (|]", d.strip())[0] for d in _show(package).get("Depends", "").split(",")]
    return [n for n in names if n]


def _first(package, pattern):
    for name in _depends(package):
        if re.fullmatch(pattern, name):
            return name
    raise Unavailable(f"apt knows no candidate of {package} (run apt-get update)")


def _resolve(kernel):
    """Package names of one kernel: the image, and what building a module against it needs."""
    suffix = "" if kernel["arch"] == "amd64" else ":" + kernel["arch"]
    image = _first(f"linux-image-{kernel['meta']}{suffix}", r"linux-image-\d.*")
    headers = image.replace("linux-image-", "linux-headers-", 1)
    # kbuild holds host programs, so it is always that of this machine.
    more = [n for n in _depends(headers + suffix) if re.match(r"linux-(headers|kbuild)-", n)]
    if len(more) < 2:
        raise Unavailable(f"apt knows no {headers} for {image} (run apt-get update)")
    return {"release": image[len("linux-image-"):], "version": _show(image + suffix)["Version"],
            "image": [image + suffix], "headers": [headers + suffix] + more}


def _unpack(packages, target):
    """Downloads and unpacks; the finished folder appears at once, under its final name."""
    if os.path.isdir(target):
        return
    parent = os.path.dirname(target)
    os.makedirs(parent, exist_ok=True)
    work = tempfile.mkdtemp(dir=parent, prefix=".unpack-")
    try:
        # Without a user of its own apt works as whoever calls it; as root it would insist on its _apt user.
        fetch = subprocess.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *packages], cwd=work,
                               capture_output=True, text=True)
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
    base = os.path.join(cache_dir(), f"{names['release']}_{names['version']}_{kernel['arch']}".replace("~", "."))
    _unpack(names["image"], os.path.join(base, "image"))
    found = {"release": names["release"], "version": names["version"], "image": os.path.join(base, "image"),
             "vmlinuz": os.path.join(base, "image", "boot", "vmlinuz-" + names["release"])}
    if headers:
        _unpack(names["headers"], os.path.join(base, "headers"))
        found["headers"] = os.path.join(base, "headers")
    return found
