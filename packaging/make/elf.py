"""Reads from an ELF binary what decides where it runs: processor, static or not, and the oldest C library it accepts."""
import dataclasses
import re
import struct

_MACHINES = {62: "x86_64", 183: "aarch64"}
_PT_INTERP = 3


@dataclasses.dataclass(frozen=True)
class Platform:
    """Where a binary runs."""

    arch: str
    static: bool
    glibc: tuple

    @property
    def triple(self):
        """The name of the target in the words of rustc."""
        return f"{self.arch}-unknown-linux-{'musl' if self.static else 'gnu'}"

    @property
    def wheel_tag(self):
        """A static binary runs with every C library; a dynamic one needs the glibc it was linked with, or a later one."""
        if self.static:
            return f"manylinux2014_{self.arch}.musllinux_1_1_{self.arch}"
        return f"manylinux_{self.glibc[0]}_{self.glibc[1]}_{self.arch}"

    @property
    def npm_cpu(self):
        """The processor in the words of npm."""
        return {"x86_64": "x64", "aarch64": "arm64"}[self.arch]

    @property
    def debian_arch(self):
        """The processor in the words of Debian."""
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.arch]


class NotSupported(Exception):
    """The file is no binary that can be packaged."""


def read(path):
    """Reads the platform of the binary at this path."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
        raise NotSupported(f"{path}: not a 64-bit little-endian ELF binary; only Linux is packaged")
    machine, = struct.unpack_from("<H", data, 18)
    if machine not in _MACHINES:
        raise NotSupported(f"{path}: built for ELF machine {machine}; packaged are {', '.join(_MACHINES.values())}")
    start, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    kinds = {struct.unpack_from("<I", data, start + index * size)[0] for index in range(count)}
    static = _PT_INTERP not in kinds
    needed = {tuple(map(int, found)) for found in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[\0.])", data)}
    return Platform(_MACHINES[machine], static, max(needed, default=(2, 17)))
