"""The static tarball with its checksum, and the bill of materials beside it."""
import hashlib

from . import archive, project, sbom, unix


def build(context):
    """Writes the tarball, `.sha256` and the bill of materials, and returns their paths."""
    stem = f"{project.NAME}-{project.VERSION}-{context.platform.triple}"
    bill = sbom.build(context)[0]
    tarball = archive.Tarball(context.dist / f"{stem}.tar.gz", context.level)
    for name, (content, mode) in unix.files(context).items():
        tarball.add(f"{stem}/{name}", content, mode)
    tarball.add(f"{stem}/README.md", project.ROOT / "README.md")
    tarball.add(f"{stem}/{bill.name}", bill)
    path = tarball.write()
    checksum = path.with_name(path.name + ".sha256")
    checksum.write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    return [path, checksum, bill]
