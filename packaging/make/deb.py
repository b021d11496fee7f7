"""The Debian package, made by dpkg-deb."""
import shutil
import subprocess

from . import archive, project, unix


def build(context):
    """Writes the package and returns its path."""
    root = context.scratch / "deb"
    size = 0
    for name, (content, mode) in unix.files(context).items():
        place = root / "usr" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is context.binary:
            shutil.copyfile(content, place)
        else:
            place.write_bytes(archive.content_bytes(content))
        place.chmod(mode)
        size += place.stat().st_size
    (root / f"usr/share/doc/{project.NAME}/copyright").write_text(
        f"Licensed under {project.LICENSE}, at your choice; the texts are in this folder.\n"
    )
    control = root / "DEBIAN/control"
    control.parent.mkdir()
    control.write_text(_control(context, size))
    path = context.dist / f"{project.NAME}_{project.VERSION}_{context.platform.debian_arch}.deb"
    compression = ["-Zxz"] if context.level else ["-Znone"]
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", *compression, "--build", root, path],
        check=True,
        stdout=subprocess.DEVNULL,
        env=context.environment,
    )
    return [path]


def _control(context, size):
    platform = context.platform
    depends = "" if platform.static else f"Depends: libc6 (>= {platform.glibc[0]}.{platform.glibc[1]}), libgcc-s1\n"
    return (
        f"Package: {project.NAME}\n"
        f"Version: {project.VERSION}\n"
        f"Architecture: {platform.debian_arch}\n"
        f"Maintainer: {project.NAME} contributors <noreply@localhost>\n"
        "Section: devel\n"
        "Priority: optional\n"
        f"Installed-Size: {size // 1024 + 1}\n"
        f"{depends}"
        f"Description: {project.SUMMARY}\n"
        " Compliance tests, a mock agent, a judge for recorded conversations and a\n"
        " proxy for editors and coding agents that speak the Agent Client Protocol.\n"
    )
