"""The build context of the container image: a Dockerfile and the files that it copies."""
import shutil

from . import elf, project


def build(context):
    """Fills dist/docker; `docker build dist/docker` makes the image."""
    if not context.platform.static:
        if context.asked_for("docker"):
            raise elf.NotSupported("the container image has no C library: give a static binary (the musl target)")
        return []
    folder = context.dist / "docker"
    shutil.rmtree(folder, ignore_errors=True)
    fill(folder, context.binary)
    return [folder]


def fill(folder, binary):
    """Writes the build context."""
    root = folder / "rootfs"
    (root / "usr/bin").mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "work").mkdir()
    shutil.copyfile(binary, root / "usr/bin/acp")
    (root / "usr/bin/acp").chmod(0o755)
    shutil.copyfile(project.PACKAGING / "docker/Dockerfile", folder / "Dockerfile")
