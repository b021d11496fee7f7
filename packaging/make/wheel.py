"""The PyPI wheel: the binary, and the Python package with the pytest plugin.

maturin builds wheels too, but only from a crate that it compiles itself. All packages here carry one and the same binary,
so this module writes the wheel: a zip archive with the layout of the binary distribution format.
"""
import base64
import hashlib
import time
import zipfile

from . import archive, project


def build(context):
    """Writes the wheel and returns its path."""
    stem = f"{project.NAME.replace('-', '_')}-{project.VERSION}"
    tag = f"py3-none-{context.platform.wheel_tag}"
    path = context.dist / f"{stem}-{tag}.whl"
    info = f"{stem}.dist-info"
    files = {f"{stem}.data/scripts/acp": (context.binary, 0o755)}
    for source in sorted((project.PACKAGING / "python/acp_workbench").glob("*.py*")):
        if source.suffix in (".py", ".pyi") or source.name == "py.typed":
            files[f"acp_workbench/{source.name}"] = (source, 0o644)
    files["acp_workbench/py.typed"] = ("", 0o644)
    files[f"{info}/METADATA"] = (_metadata(), 0o644)
    files[f"{info}/WHEEL"] = (_wheel(tag), 0o644)
    files[f"{info}/entry_points.txt"] = (_entry_points(), 0o644)
    for name in project.LICENSE_FILES:
        files[f"{info}/licenses/{name}"] = (project.ROOT / name, 0o644)
    _write(path, files, f"{info}/RECORD", context.level)
    return [path]


def _write(path, files, record, level):
    when = time.gmtime(max(project.timestamp(), 315_532_800))[:6]
    method = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
    lines = []
    with zipfile.ZipFile(path, "w", method, compresslevel=level or None) as wheel:
        def put(name, data, mode):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = method
            wheel.writestr(entry, data)

        for name, (content, mode) in files.items():
            data = archive.content_bytes(content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}")
            put(name, data, mode)
        lines.append(f"{record},,")
        put(record, "\n".join(lines) + "\n", 0o644)


def _metadata():
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", project.NAME),
        ("Version", project.VERSION),
        ("Summary", project.SUMMARY),
        ("License-Expression", project.LICENSE),
        *(("License-File", name) for name in project.LICENSE_FILES),
        ("Requires-Python", ">=3.9"),
        ("Classifier", "Framework :: Pytest"),
        ("Classifier", "Operating System :: POSIX :: Linux"),
        ("Classifier", "Topic :: Software Development :: Testing"),
        ("Provides-Extra", "pytest"),
        ("Requires-Dist", 'pytest>=7; extra == "pytest"'),
        ("Description-Content-Type", "text/markdown"),
    ]
    readme = (project.PACKAGING / "python/README.md").read_text()
    return "".join(f"{name}: {value}\n" for name, value in fields) + "\n" + readme


def _wheel(tag):
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    return f"Wheel-Version: 1.0\nGenerator: acp-workbench scripts/package\nRoot-Is-Purelib: false\n{tags}"


def _entry_points():
    aliases = "".join(f"{name} = acp_workbench.__main__:{command.split()[0]}\n" for name, command in project.ALIASES.items())
    return (
        f"[console_scripts]\n{project.NAME} = acp_workbench.__main__:main\n{aliases}\n"
        "[pytest11]\nacp_workbench = acp_workbench.pytest_plugin\n"
    )
