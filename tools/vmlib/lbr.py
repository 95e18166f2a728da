"""The emulated branch hardware: the guests' kernel module and QEMU's plugin, built on demand into the cache."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile

from vmlib import kernels
from vmlib.kernels import ROOT, Unavailable

_MODULE = os.path.join(ROOT, "tests/vm/module")
_PLUGIN = os.path.join(ROOT, "tests/vm/plugin")


_CROSS = {"arm64": ["ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-", "CC=aarch64-linux-gnu-gcc-12"]}


def _digest(*folders):
    digest = hashlib.sha256()
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if name.endswith((".c", ".h", "Kbuild")):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()[:16]


def _run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        raise SystemExit(f"vm: {' '.join(command)}\n{done.stdout}{done.stderr}")


def _compiler():
    for name in ("gcc-12", "gcc"):
        if shutil.which(name):
            return name
    raise Unavailable("no C compiler")


def plugin():
    """Path of the built plugin."""
    path = os.path.join(kernels.cache_dir(), f"lbr-plugin-{_digest(_PLUGIN)}.so")
    if not os.path.exists(path):
        fresh = f"{path}.{os.getpid()}"
        _run([_compiler(), "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden",
              os.path.join(_PLUGIN, "lbr_plugin.c"), "-o", fresh, "-ldl"])
        os.replace(fresh, path)
    return path


def _point_home(headers, release):
    """The packages' makefiles say /usr/src; unpacked they are elsewhere."""
    makefile = os.path.join(headers, "usr/src", "linux-headers-" + release, "Makefile")
    with open(makefile, encoding="utf-8") as file:
        text = file.read()
    fixed = re.sub(r"^include /usr/src/", f"include {headers}/usr/src/", text, flags=re.M)
    if fixed != text:
        with open(makefile, "w", encoding="utf-8") as file:
            file.write(fixed)
    return os.path.dirname(makefile)


def module(kernel):
    """Path of brink_lbr.ko for a matrix row."""
    cross = (("aarch64-linux-gnu-gcc-12", "gcc-12-aarch64-linux-gnu"),) if kernel["arch"] != kernels.host_arch() else ()
    for tool, package in (*cross, ("make", "build-essential"), ("pahole", "pahole"), ("gcc-12", "gcc-12")):
        if not shutil.which(tool):
            raise Unavailable(f"no {tool} (package {package}), which building the guests' module needs")
    found = kernels.get(kernel, headers=True)
    folder = os.path.join(os.path.dirname(found["headers"]), "module-" + _digest(_MODULE, _PLUGIN))
    path = os.path.join(folder, "brink_lbr.ko")
    if os.path.exists(path):
        return path
    tree = _point_home(found["headers"], found["release"])
    with tempfile.TemporaryDirectory(prefix="brink-module-") as work:
        for name in os.listdir(_MODULE):
            shutil.copy(os.path.join(_MODULE, name), work)
        shutil.copy(os.path.join(_PLUGIN, "bar.h"), work)
        cross = [] if kernel["arch"] == kernels.host_arch() else _CROSS[kernel["arch"]]
        _run(["make", "-s", "-C", tree, f"M={work}", *cross, "modules"])
        os.makedirs(folder, exist_ok=True)
        fresh = f"{path}.{os.getpid()}"
        shutil.copy(os.path.join(work, "brink_lbr.ko"), fresh)
        os.replace(fresh, path)
    return path


def attach(guest, mode, parameters):
    """Gives a guest branch hardware: mode 'plugin' (true branches) or 'canned' (what the test feeds)."""
    if guest.kernel["arch"] == "arm64" and "flavour=" not in parameters:
        parameters = f"flavour=brbe {parameters}"
    guest.modules.append((module(guest.kernel), f"source={mode} {parameters}"))
    if mode == "plugin":
        guest.plugin = plugin()
