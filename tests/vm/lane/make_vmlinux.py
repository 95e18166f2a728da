#!/usr/bin/env python3
"""Makes an uncompressed vmlinux with a symbol table from a distribution's bzImage and /proc/kallsyms of a kernel that ran:
what a debug package holds, without its 700 MB. Addresses are those of the link: KASLR's slide is taken out by _text.

usage: make_vmlinux VMLINUZ KALLSYMS OUTPUT"""
import lzma, struct, subprocess, sys, zlib


def payload(image):
    """The ELF file within a bzImage (Documentation/arch/x86/boot.rst: payload_offset, payload_length)."""
    setup = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    packed = image[(setup + 1) * 512 + offset:][:length]
    if packed.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "-dc"], input=packed[:-4], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    if packed.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(packed)
    sys.exit("the kernel is packed in a way that this tool does not know")


def symbols(kallsyms):
    found = []
    with open(kallsyms) as lines:
        for line in lines:
            words = line.split()
            if len(words) == 3 and words[1] in "tTwW":
                found.append((int(words[0], 16), words[2]))
    return sorted(found)


def main():
    image, kallsyms, output = sys.argv[1:]
    with open(image, "rb") as file:
        elf = bytearray(payload(file.read()))
    phoff, phnum = struct.unpack_from("<Q", elf, 32)[0], struct.unpack_from("<H", elf, 56)[0]
    segments = [struct.unpack_from("<IIQQQQQQ", elf, phoff + 56 * i) for i in range(phnum)]
    text = next(s for s in segments if s[0] == 1 and s[1] & 1)
    functions = symbols(kallsyms)
    slide = next(a for a, n in functions if n == "_text") - text[3]
    inside = [(a - slide, n) for a, n in functions if text[3] <= a - slide < text[3] + text[5]]
    names, table = bytearray(b"\0"), bytearray(24)
    for i, (address, name) in enumerate(inside):
        size = (inside[i + 1][0] if i + 1 < len(inside) else text[3] + text[5]) - address
        table += struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, address, size)
        names += name.encode() + b"\0"
    # The sections that are there, then ours.
    shoff, shnum, shstrndx = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 60)
    headers = [bytearray(elf[shoff + 64 * i:shoff + 64 * i + 64]) for i in range(shnum)]
    strings = bytearray()
    if headers:
        at, size = struct.unpack_from("<QQ", headers[shstrndx], 24)
        strings = bytearray(elf[at:at + size])
    else:
        headers, shstrndx = [bytearray(64), bytearray(64)], 1
        strings = bytearray(b"\0")
    def add(kind, name, data, link=0, entry=0):
        header = struct.pack("<IIQQQQIIQQ", len(strings), kind, 0, 0, len(elf), len(data), link, 1, 8, entry)
        strings.extend(name + b"\0")
        elf.extend(data)
        headers.append(bytearray(header))
    while len(elf) % 8:
        elf.append(0)
    add(3, b".strtab", names)
    add(2, b".symtab", table, len(headers) - 1, 24)
    strings_at = len(elf)
    elf.extend(strings)
    struct.pack_into("<IIQQQQIIQQ", headers[shstrndx], 0, struct.unpack_from("<I", headers[shstrndx])[0], 3, 0, 0, strings_at, len(strings), 0, 0, 1, 0)
    while len(elf) % 8:
        elf.append(0)
    struct.pack_into("<Q", elf, 40, len(elf))
    struct.pack_into("<HHH", elf, 58, 64, len(headers), shstrndx)
    for header in headers:
        elf.extend(header)
    with open(output, "wb") as file:
        file.write(elf)


main()
