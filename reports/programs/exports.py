#!/usr/bin/env python3
"""Prints the functions that a shared library exports, a name a line: exports.py libcuda.so.1

The library is one that the loader finds. Its symbol table is read from the file, as `nm -D --defined-only` would.
"""

import ctypes
import struct
import sys

SHT_DYNSYM = 11


def loaded_path(name):
    """Where the loader finds the library."""
    ctypes.CDLL(name)
    stem = name.split(".so")[0]
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if f"/{stem}.so" in line)


def exported(elf):
    """Names of the defined dynamic symbols of a 64-bit little-endian ELF file."""
    (at,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != SHT_DYNSYM:
            continue
        names = sections[link][4]
        for symbol in range(offset, offset + length, entry):
            name, _, _, section = struct.unpack_from("<IBBH", elf, symbol)
            if section:
                start = names + name
                yield elf[start:elf.index(b"\0", start)].decode("ascii", "replace")


if __name__ == "__main__":
    with open(loaded_path(sys.argv[1]), "rb") as file:
        print("\n".join(sorted(set(exported(file.read())))))
