"""The Homebrew formula, filled in with the version and the checksum of the tarball."""
import hashlib

from . import project


def build(context):
    """Writes the formula of the tarball that is in dist."""
    stem = f"{project.NAME}-{project.VERSION}-{context.platform.triple}"
    tarball = context.dist / f"{stem}.tar.gz"
    if not tarball.exists():
        raise FileNotFoundError(f"{tarball.name} is not in {context.dist}: build the tarball first")
    text = (project.PACKAGING / "homebrew/acp-workbench.rb").read_text()
    values = {
        "VERSION": project.VERSION,
        "LICENSE": ", ".join(f'"{name}"' for name in project.LICENSE.split(" OR ")),
        "SUMMARY": project.SUMMARY,
        "TARBALL": tarball.name,
        "SHA256": hashlib.sha256(tarball.read_bytes()).hexdigest(),
        "BASE_URL": context.base_url,
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    path = context.dist / "acp-workbench.rb"
    path.write_text(text)
    return [path]
