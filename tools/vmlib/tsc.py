"""Frequency of this machine's time stamp counter, which emulated guests read as it is.

A guest calibrates its copy in the first milliseconds; with the machine busy it has come out 1.5 times wrong, and then
every second in the guest is. Told the value it only checks it.
"""

import ctypes
import mmap
import platform
import time

_RDTSC = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl rdx,32; or rax,rdx; ret


def _pair(read):
    """Counter and clock of one moment: of several tries the one least disturbed."""
    tries = []
    for _ in range(20):
        before, now, after = read(), time.monotonic_ns(), read()
        tries.append((after - before, (before + after) // 2, now))
    return min(tries)[1:]


def khz():
    """None where there is no such counter or no executable memory to read it with."""
    if platform.machine() != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    code.write(_RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    count, begin = _pair(read)
    time.sleep(0.1)
    more, end = _pair(read)
    return round((more - count) * 1e6 / (end - begin))
