"""The npm packages: one per platform with the binary, and `acp-workbench` with the launcher and the test library.

npm installs the platform package that fits, because the main package lists them all as optional dependencies.
"""
import json

from . import archive, project

# The platforms that are published. The launcher looks for `acp-workbench-<platform>-<cpu>`.
PLATFORMS = ["linux-x64", "linux-arm64"]


def build(context):
    """Writes the main package and the package of the binary's platform, and returns their paths."""
    return [_platform(context), _main(context)]


def _platform(context):
    cpu = context.platform.npm_cpu
    name = f"{project.NAME}-linux-{cpu}"
    manifest = {
        "name": name,
        "version": project.VERSION,
        "description": f"The acp binary for Linux on {cpu}; install {project.NAME} instead",
        "license": project.LICENSE,
        "os": ["linux"],
        "cpu": [cpu],
        "files": ["bin", *project.LICENSE_FILES],
    }
    if not context.platform.static:
        manifest["libc"] = ["glibc"]
    package = archive.Tarball(context.dist / f"{name}-{project.VERSION}.tgz", context.level)
    package.add("package/package.json", _json(manifest))
    package.add("package/README.md", f"The `acp` binary for Linux on {cpu}. Install `{project.NAME}` instead.\n")
    package.add("package/bin/acp", context.binary, 0o755)
    _licenses(package)
    return package.write()


def _main(context):
    source = project.PACKAGING / "npm"
    manifest = json.loads((source / "package.json").read_text())
    manifest["version"] = project.VERSION
    manifest["description"] = project.SUMMARY
    manifest["license"] = project.LICENSE
    manifest["optionalDependencies"] = {f"{project.NAME}-{name}": project.VERSION for name in PLATFORMS}
    package = archive.Tarball(context.dist / f"{project.NAME}-{project.VERSION}.tgz", context.level)
    package.add("package/package.json", _json(manifest))
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_file() and path.name != "package.json" and "node_modules" not in inside.parts:
            package.add(f"package/{inside}", path, 0o755 if inside.parts[0] == "bin" else 0o644)
    _licenses(package)
    return package.write()


def _licenses(package):
    for name in project.LICENSE_FILES:
        package.add(f"package/{name}", project.ROOT / name)


def _json(value):
    return json.dumps(value, indent=2) + "\n"
