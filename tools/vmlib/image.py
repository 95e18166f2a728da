"""Root file systems of the guests: busybox, an init, and whatever shall run there with its shared libraries."""

import os
import re
import shutil
import stat
import subprocess

from vmlib import kernels
from vmlib.kernels import Unavailable

_INIT = """#!/bin/sh
# First process of the guest: mounts what the tests need, runs /vm/run, reports on the second serial port.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t devpts devpts /dev/pts
ln -sf /proc/self/fd /dev/fd
for pair in 0:stdin 1:stdout 2:stderr; do ln -sf fd/${pair%%:*} /dev/${pair#*:}; done # as every init does
mount -t tmpfs tmp /dev/shm
mount -t tmpfs tmp /run
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs trace /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +pids > /sys/fs/cgroup/cgroup.subtree_control # as every init does; perf_event of version 2 waits for it
ip link set lo up
hostname guest
stty -F RESULT_TTY raw 2>/dev/null
. /vm/env
status=0
for module in /vm/modules/*.ko; do
  [ -e "$module" ] || continue
  name=${module##*/}; name=${name%.ko}
  insmod "$module" $(cat /vm/modules/$name.params 2>/dev/null) || status=98
done
if [ $status = 0 ]; then
  cd /root
  echo "GUEST BEGIN" > RESULT_TTY
  sh /vm/run < /dev/null > RESULT_TTY 2>&1
  status=$?
fi
# The root's disk has a partition; which of the two has which number is the kernel's choice.
if [ -e /dev/nvme0n1p1 ]; then out=/dev/nvme0n2; else out=/dev/nvme0n1; fi
[ ! -d /out ] || tar -cf $out -C /out . || status=99
# Status first, so that a guest that hangs while it goes down has still answered.
echo "
RESULT $status" > RESULT_TTY
sync
poweroff -f
"""


class Root:
    """A root folder under construction; every file lands at the path that it has on this machine."""

    def __init__(self, folder, arch):
        self.folder = folder
        self.arch = arch
        for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc", "vm/modules", "var/tmp", "usr/bin", "usr/sbin",
                     "usr/lib", "usr/lib64"):
            os.makedirs(self.path(name), exist_ok=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            os.symlink("usr/" + name, self.path(name))
        self.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        self.write("etc/group", "root:x:0:\nnogroup:x:65534:\n")
        self._busybox()

    def path(self, name):
        return os.path.join(self.folder, name.lstrip("/"))

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def _busybox(self):
        shutil.copy(kernels.busybox(self.arch), self.path("usr/bin/busybox"))
        # This machine's list: another architecture's busybox of the same release has the same applets.
        applets = subprocess.run([kernels.busybox(kernels.host_arch()), "--list"], capture_output=True, text=True,
                                 check=True).stdout.split()
        for applet in applets:
            if applet != "busybox":
                os.symlink("busybox", self.path("usr/bin/" + applet))

    def overlay(self, folder):
        """The contents of unpacked packages at the paths that they have there."""
        for base, dirs, files in os.walk(folder):
            inside = os.path.relpath(base, folder)
            if inside.split("/")[:3] in (["usr", "share", "doc"], ["usr", "share", "man"], ["usr", "share", "locale"]):
                continue
            # This root has /bin and its like as links into /usr; packages of this release do not know that.
            target = os.path.realpath(os.path.join(self.folder, inside))
            os.makedirs(target, exist_ok=True)
            for name in files + [d for d in dirs if os.path.islink(os.path.join(base, d))]:
                place = os.path.join(target, name)
                if os.path.lexists(place):
                    os.unlink(place)  # a busybox applet gives way to the real program
                try:
                    os.link(os.path.join(base, name), place, follow_symlinks=False)
                except OSError:
                    shutil.copy2(os.path.join(base, name), place, follow_symlinks=False)

    def add(self, path):
        """A file with its libraries, or a folder with everything in it, at its own absolute path."""
        path = os.path.abspath(path)
        if os.path.isdir(path):
            shutil.copytree(path, self.path(path), symlinks=True, dirs_exist_ok=True)
            return
        if not os.path.exists(path):
            raise SystemExit(f"vm: no such file: {path}")
        self._link(path)
        for library in _libraries(os.path.realpath(path)):  # ldd follows the libraries' own needs
            self._link(library)

    def _link(self, path):
        """The file itself, and the name that it is called by if that is a symbolic link."""
        real = os.path.realpath(path)
        self._place(real)
        named = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if named != real:
            os.makedirs(os.path.dirname(self.path(named)), exist_ok=True)
            if os.path.lexists(self.path(named)):
                os.unlink(self.path(named))
            os.symlink(real, self.path(named))

    def _place(self, real):
        target = self.path(real)
        if os.path.lexists(target):
            if not os.path.islink(target):
                return
            os.unlink(target)  # a busybox applet gives way to the real program
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.link(real, target)
        except OSError:
            shutil.copy2(real, target)

    def finish(self, result_tty, run, env):
        self.write("init", _INIT.replace("RESULT_TTY", result_tty), 0o755)
        self.write("vm/run", run, 0o755)
        env = {"BRINK_VM_HOST": result_tty, **env}
        self.write("vm/env", "".join(f"export {k}={_quote(v)}\n" for k, v in env.items()))


def _quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _libraries(path):
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return []
        file.seek(18)
        machine = int.from_bytes(file.read(2), "little")
    if machine != _MACHINES.get(kernels.host_arch()):
        return _foreign_libraries(path, {183: "aarch64-linux-gnu", 62: "x86_64-linux-gnu"}.get(machine))
    listing = subprocess.run(["ldd", path], capture_output=True, text=True)
    if listing.returncode:
        return []  # static, or a module
    missing = re.findall(r"(\S+) => not found", listing.stdout)
    if missing:
        raise SystemExit(f"vm: {path} needs {' '.join(missing)}, not found here")
    return re.findall(r"(/\S+) \(0x", listing.stdout)


_MACHINES = {"amd64": 62, "arm64": 183}


def _foreign_libraries(path, triplet):
    """The closure of a program that this machine's ldd cannot ask, from the libraries installed for its architecture."""
    found, waiting = {}, [path]
    while waiting:
        text = subprocess.run(["readelf", "-ld", waiting.pop()], capture_output=True, text=True, check=True).stdout
        for interpreter in re.findall(r"program interpreter: (\S+)\]", text):
            found.setdefault(os.path.basename(interpreter), interpreter)
        for name in re.findall(r"\(NEEDED\)\s+Shared library: \[(\S+)\]", text):
            if name in found:
                continue
            # Beside the program, where its run path may point, then where the others lie.
            places = [os.path.join(os.path.dirname(path), name), f"/usr/lib/{triplet}/{name}", f"/lib/{triplet}/{name}", f"/usr/{triplet.replace('x86_64', 'x86-64')}/lib/{name}",
                      f"/usr/{triplet}/lib/{name}"]
            place = next((p for p in places if os.path.exists(p)), None)
            if not place:
                raise SystemExit(f"vm: {path} needs {name} for {triplet}, not installed here")
            found[name] = place
            waiting.append(place)
    return list(found.values())


def _size(folder):
    total = 0
    for base, dirs, files in os.walk(folder):
        total += 4096 * (1 + len(dirs))
        for name in files:
            total += (os.lstat(os.path.join(base, name)).st_size + 8191) & ~4095
    return total


# What `root=PARTUUID=` calls the only partition of a disk with this signature.
PARTITION = "62726e6b-01"
_PARTITION_START = 1 << 20


def make_disk(root, path):
    """A disk whose only partition is the root: found by name where the kernel numbers disks as it likes."""
    make_ext4(root, path, _PARTITION_START)
    sectors = (os.path.getsize(path) - _PARTITION_START) // 512
    with open(path, "r+b") as disk:
        disk.seek(440)
        disk.write(int(PARTITION[:8], 16).to_bytes(4, "little") + bytes(2))
        disk.write(bytes([0, 0, 2, 0, 0x83, 0xff, 0xff, 0xff]) + (_PARTITION_START // 512).to_bytes(4, "little") + sectors.to_bytes(4, "little"))
        disk.seek(510)
        disk.write(b"\x55\xaa")


def make_ext4(root, path, offset=0):
    tool = shutil.which("mke2fs", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not tool:
        raise Unavailable("no mke2fs (package e2fsprogs)")
    megabytes = _size(root.folder) * 5 // 4 // 2**20 + 256
    with open(path, "wb") as disk:
        disk.truncate(offset + (megabytes << 20))
    subprocess.run([tool, "-q", "-t", "ext4", "-O", "^has_journal", "-E", f"root_owner=0:0,offset={offset}", "-d", root.folder, path,
                    f"{megabytes}M"], check=True, stdout=subprocess.DEVNULL)


def make_initramfs(root, path):
    """newc archive, uncompressed: unpacking it under emulation costs less than decompressing."""
    with open(path, "wb") as out:
        inode = 0
        for base, dirs, files in os.walk(root.folder):
            for name in sorted(dirs) + sorted(files):
                inode += 1
                full = os.path.join(base, name)
                _entry(out, inode, os.path.relpath(full, root.folder), full)
        _header(out, 0, "TRAILER!!!", 0, 0)


def _entry(out, inode, name, full):
    info = os.lstat(full)
    if stat.S_ISLNK(info.st_mode):
        data = os.readlink(full).encode()
    elif stat.S_ISREG(info.st_mode):
        with open(full, "rb") as file:
            data = file.read()
    else:
        data = b""
    _header(out, inode, name, info.st_mode, len(data))
    out.write(data + b"\0" * (-len(data) % 4))


def _header(out, inode, name, mode, size):
    raw = name.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(raw), 0)
    out.write(b"070701" + b"".join(b"%08X" % f for f in fields) + raw + b"\0" * (-(110 + len(raw)) % 4))
