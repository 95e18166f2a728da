#!/usr/bin/python3
"""Writes the seeds of the perf.data fuzzers: one small recording of each kind, spelled out here so that every field, record
type and section is reached from the start. usage: make_corpus.py FOLDER"""
import ctypes, os, struct, sys


def attr(e, sample_type, size=128, read_format=0, branch_type=0, config=0):
    flags = 1 << 18 if e == "<" else 1 << 45
    text = struct.pack(e + "IIQQQQQIIQQQQIiQIHHIIQQ", 1, size, config, 1000, sample_type, read_format, flags, 0, 0, 0, 0, branch_type, 7, 16, 1, 1,
                       0, 0, 0, 0, 0, 0, 0)
    return text[:size]


def record(e, kind, misc, body):
    return struct.pack(e + "IHH", kind, misc, 8 + len(body)) + body


def name(text, size):
    return text.encode().ljust(size, b"\0")


def string(e, text):
    return struct.pack(e + "I", 64) + name(text, 64)


def file(e, events, data, sections=()):
    ids = b"".join(struct.pack(e + f"{len(i)}Q", *i) for _, i in events)
    attrs, at = b"", 104
    for a, i in events:
        attrs += a + struct.pack(e + "QQ", at, 8 * len(i))
        at += 8 * len(i)
    place = 104 + len(ids) + len(attrs)
    bits = 0
    for bit, _ in sections:
        bits |= 1 << bit
    table, payload, at = b"", b"", place + len(data) + 16 * len(sections)
    for _, text in sections:
        table += struct.pack(e + "QQ", at + len(payload), len(text))
        payload += text
    header = (b"PERFILE2" if e == "<" else b"2ELIFREP") + struct.pack(e + "QQQQQQQQ", 104, len(events[0][0]) + 16, 104 + len(ids), len(attrs), place, len(data), 0, 0)
    header += struct.pack(e + "4Q", *(bits >> 64 * k & (1 << 64) - 1 for k in range(4)))
    return header + ids + attrs + data + table + payload


def pipe(e, events, data):
    out = (b"PERFILE2" if e == "<" else b"2ELIFREP") + struct.pack(e + "Q", 16)
    for a, i in events:
        out += record(e, 64, 0, a + struct.pack(e + f"{len(i)}Q", *i))
    return out + data


def full_sample(e):
    b = struct.pack(e + "QQIIQQQQIIQ", 5, 0x401000, 1, 2, 777, 0xADD, 5, 6, 3, 0, 1000)
    b += struct.pack(e + "9Q", 2, 100, 200, 10, 71, 1, 20, 72, 2)
    b += struct.pack(e + "3Q", 2, (1 << 64) - 512, 0x401000)
    b += struct.pack(e + "I", 12) + b"raw bytes..."
    b += struct.pack(e + "QQ", 1, 9) + struct.pack(e + "QQQ", 0x10, 0x20, 0x501F41) + struct.pack(e + "Q", 81)
    b += struct.pack(e + "4Q", 2, 1, 2, 3) + struct.pack(e + "Q", 16) + bytes(16) + struct.pack(e + "Q", 8)
    b += struct.pack(e + "3Q", 70, 0x44, 0x55) + struct.pack(e + "QQ", 1, 42) + struct.pack(e + "4Q", 1, 2, 3, 4)
    return record(e, 9, 2, b + struct.pack(e + "Q", 8) + bytes(8))


def plain_sample(e, time, branches=1):
    b = struct.pack(e + "QIIQQQ", 0x401000, 1, 2, time, 99, branches)
    return record(e, 9, 2, b + b"".join(struct.pack(e + "QQQ", 1 + k, 2 + k, 2) for k in range(branches)))


def side_band(e):
    i = struct.pack(e + "IIQIIQ", 1, 2, 50, 3, 0, 5)
    mmap = struct.pack(e + "IIQQQ", 7, 8, 0x1000, 0x2000, 0)
    out = record(e, 1, 1, mmap + name("/lib/a", 8) + i)
    out += record(e, 10, 2, mmap + struct.pack(e + "IIQQII", 8, 1, 99, 4, 5, 2) + name("/lib/b", 8) + i)
    out += record(e, 10, 2 | 1 << 14, mmap + bytes([20, 0, 0, 0]) + b"\x42" * 20 + struct.pack(e + "II", 5, 2) + name("/lib/c", 8) + i)
    out += record(e, 3, 1 << 13, struct.pack(e + "II", 7, 8) + name("bash", 8) + i)
    for kind in (4, 7):
        out += record(e, kind, 0, struct.pack(e + "IIIIQ", 7, 1, 8, 2, 44) + i)
    out += record(e, 2, 0, struct.pack(e + "QQ", 5, 3) + i) + record(e, 13, 0, struct.pack(e + "Q", 4) + i)
    for kind in (5, 6, 11):
        out += record(e, kind, 0, struct.pack(e + "QQQ", 50, 5, 6) + i)
    out += record(e, 8, 0, struct.pack(e + "IIQ", 7, 8, 1) + i) + record(e, 12, 0, struct.pack(e + "II", 7, 8) + i)
    out += record(e, 14, 0, i) + record(e, 15, 0, struct.pack(e + "II", 9, 10) + i)
    out += record(e, 16, 0, struct.pack(e + "IIQQQ", 7, 8, 1, 3, 100) + i)
    out += record(e, 17, 0, struct.pack(e + "QIHH", 0xFFFF, 64, 1, 0) + name("bpf_prog", 16) + i)
    out += record(e, 18, 0, struct.pack(e + "HHI", 1, 0, 33) + bytes(8) + i)
    out += record(e, 19, 0, struct.pack(e + "Q", 77) + name("/sys", 8) + i)
    out += record(e, 20, 0, struct.pack(e + "QHH", 0xF00, 1, 2) + b"abcd" + i) + record(e, 21, 0, struct.pack(e + "Q", 6) + i)
    return out + record(e, 68, 0, struct.pack(e + "Q", 45)) + record(e, 82, 0, b"")


def zstd(text):
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        sys.exit("make_corpus.py needs libzstd.so.1")
    library.ZSTD_compress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(len(text) + 1024)
    size = library.ZSTD_compress(out, ctypes.c_size_t(len(out)), text, ctypes.c_size_t(len(text)), 1)
    return out.raw[:size]


PLAIN = 0x907  # ip tid time period branch_stack
ALL = (1 << 24) - 1


def seeds():
    for e, order in (("<", "little"), (">", "big")):
        sections = [(2, struct.pack(e + "IHHi", 0, 2 | 1 << 15, 100, -1) + b"\1" * 20 + bytes([20, 0, 0, 0]) + name("/bin/x", 64)), (3, string(e, "host")),
                    (7, struct.pack(e + "II", 4, 2)), (10, struct.pack(e + "Q", 1)), (11, struct.pack(e + "I", 1) + string(e, "perf")),
                    (12, struct.pack(e + "II", 1, 128) + attr(e, PLAIN) + struct.pack(e + "I", 1) + string(e, "name") + struct.pack(e + "Q", 5)), (15, b""),
                    (16, struct.pack(e + "II", 1, 4) + string(e, "cpu")), (21, struct.pack(e + "QQ", 1, 2)), (23, struct.pack(e + "Q", 1)),
                    (27, struct.pack(e + "5I", 1, 1, 1, 2, 4096)), (29, struct.pack(e + "IIQQ", 1, 1, 5, 6))]
        yield f"plain-{order}", file(e, [(attr(e, PLAIN), [5])], plain_sample(e, 2, 3) + plain_sample(e, 1, 0) + record(e, 68, 0, b""), sections)
        yield f"fields-{order}", file(e, [(attr(e, ALL, read_format=31, branch_type=1 << 17 | 1 << 19), [5])], full_sample(e))
        yield f"sideband-{order}", file(e, [(attr(e, 0x10086), [5])], side_band(e))
        two = [(attr(e, 0x10006), [5]), (attr(e, 0x10806, config=1), [6])]
        yield f"events-{order}", file(e, two, record(e, 9, 2, struct.pack(e + "QIIQ", 5, 1, 1, 7)) + record(e, 9, 2, struct.pack(e + "QIIQQ", 6, 1, 1, 8, 0)))
        tool = record(e, 80, 0, struct.pack(e + "Q", 3) + string(e, "host")) + record(e, 78, 0, struct.pack(e + "QQ", 2, 5) + name("n", 8))
        tool += record(e, 67, 2, struct.pack(e + "i", -1) + bytes(24) + name("/bin/y", 8)) + record(e, 79, 0, struct.pack(e + "QQQ", 1, 2, 3))
        tool += record(e, 71, 0, struct.pack(e + "QQQIIII", 16, 0, 0, 0, 1, 2, 0)) + bytes(16) + record(e, 66, 0, struct.pack(e + "I", 8)) + bytes(8)
        yield f"pipe-{order}", pipe(e, [(attr(e, PLAIN), [5])], tool + plain_sample(e, 3))
        packed = zstd(plain_sample(e, 1, 40) + plain_sample(e, 2, 40))
        yield f"zstd-{order}", pipe(e, [(attr(e, PLAIN, size=136), [])], record(e, 81, 0, packed) + record(e, 83, 0, struct.pack(e + "Q", len(packed)) + packed + bytes(-len(packed) % 8)))
    little = file("<", [(attr("<", PLAIN, size=64), [])], plain_sample("<", 1) + bytes(64) + plain_sample("<", 2))
    yield "zeros-within", little
    yield "killed", file("<", [(attr("<", PLAIN), [])], b"") + plain_sample("<", 1) + plain_sample("<", 2)[:40]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for title, text in seeds():
        with open(os.path.join(sys.argv[1], title), "wb") as out:
            out.write(text)


main()
