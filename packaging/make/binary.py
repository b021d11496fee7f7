"""The binary that all packages carry: built for the musl target, so that it needs no C library where it runs."""
import os
import platform
import shutil
import subprocess

from . import project


# Relocations in their packed form: 2 MB less. Every linker since binutils 2.38 can write it, and musl reads it since 1.2.4.
PACKED = ["-C", "link-arg=-Wl,-z,pack-relative-relocs"]


class CannotBuild(Exception):
    """The static binary cannot be built here."""


def build(target=None):
    """Builds the static release binary and returns its path."""
    target = target or f"{platform.machine()}-unknown-linux-musl"
    _add_target(target)
    environment = {**os.environ, **_c_compiler(target)}
    command = ["cargo", "rustc", "--release", "--locked", "--package", project.NAME, "--bin", "acp", "--target", target]
    subprocess.run([*command, "--", *PACKED], cwd=project.ROOT, env=environment, check=True)
    return project.ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / target / "release/acp"


def _add_target(target):
    rustup = shutil.which("rustup")
    if not rustup:
        return
    subprocess.run([rustup, "target", "add", target], cwd=project.ROOT, check=True)


def _c_compiler(target):
    """Some dependencies are written in C: they are compiled with musl-gcc, or with zig."""
    name = target.replace("-", "_")
    if f"CC_{name}" in os.environ:
        return {}
    if target.startswith(platform.machine()) and (found := shutil.which("musl-gcc")):
        return {f"CC_{name}": found}
    if zig := _zig():
        wrapper = project.ROOT / "target/zig-cc" / target
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        arch = target.split("-")[0]
        # rustc and the cc crate pass a triple that zig spells otherwise.
        wrapper.write_text(
            "#!/bin/sh\nfor a do shift; case $a in --target=*) ;; *) set -- \"$@\" \"$a\" ;; esac; done\n"
            f'exec {zig} cc -target {arch}-linux-musl "$@"\n'
        )
        wrapper.chmod(0o755)
        archiver = wrapper.with_name(f"{target}-ar")
        archiver.write_text(f'#!/bin/sh\nexec {zig} ar "$@"\n')
        archiver.chmod(0o755)
        return {f"CC_{name}": str(wrapper), f"AR_{name}": str(archiver)}
    raise CannotBuild(
        f"no C compiler for {target}: install musl-tools (apt install musl-tools), or zig (pip install ziglang), "
        "or give a finished binary with --binary"
    )


def _zig():
    if found := shutil.which("zig"):
        return found
    for python in ("python3",):
        module = subprocess.run([python, "-c", "import ziglang"], capture_output=True)
        if module.returncode == 0:
            return f"{python} -m ziglang"
    return None
