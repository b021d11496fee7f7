"""The software bill of materials: what is compiled into the binary, in CycloneDX 1.5, from `cargo metadata`."""
import datetime
import json
import subprocess
import tomllib
import uuid

from . import project


def build(context):
    """Writes the bill of materials and returns its path."""
    path = context.dist / f"{project.NAME}-{project.VERSION}.cdx.json"
    path.write_text(json.dumps(bill(context.platform.triple), indent=1) + "\n")
    return [path]


def bill(triple):
    """The bill of materials of the binary for one target."""
    metadata = _metadata(triple)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(identity for identity, package in packages.items() if package["name"] == project.NAME)
    edges = _reachable(root, nodes)
    sums = _checksums()
    refs = {identity: _purl(packages[identity]) for identity in edges}
    when = datetime.datetime.fromtimestamp(project.timestamp(), datetime.timezone.utc)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'{refs[root]} {triple} {when}')}",
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": _component(packages[root], refs[root], "application", {}),
            "properties": [{"name": "cargo:target", "value": triple}],
        },
        "components": [
            _component(packages[identity], refs[identity], "library", sums)
            for identity in sorted(edges, key=refs.get)
            if identity != root
        ],
        "dependencies": [
            {"ref": refs[identity], "dependsOn": sorted(refs[other] for other in edges[identity])}
            for identity in sorted(edges, key=refs.get)
        ],
    }


def _metadata(triple):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple]
    offline = subprocess.run([*command, "--offline"], cwd=project.ROOT, capture_output=True)
    if offline.returncode == 0:
        return json.loads(offline.stdout)
    # Crates of the lock file that no build here has needed are fetched once.
    return json.loads(subprocess.run(command, cwd=project.ROOT, capture_output=True, check=True).stdout)


def _reachable(root, nodes):
    """What the root needs to be built, without what only tests need: package → the packages it depends on."""
    edges, waiting = {}, [root]
    while waiting:
        identity = waiting.pop()
        if identity in edges:
            continue
        edges[identity] = {
            dependency["pkg"]
            for dependency in nodes[identity]["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        }
        waiting.extend(edges[identity])
    return edges


def _component(package, ref, kind, sums):
    component = {
        "type": kind,
        "bom-ref": ref,
        "name": package["name"],
        "version": package["version"],
        "purl": ref,
    }
    if package.get("description"):
        component["description"] = " ".join(package["description"].split())
    if package.get("license"):
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if digest := sums.get((package["name"], package["version"])):
        component["hashes"] = [{"alg": "SHA-256", "content": digest}]
    return component


def _purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def _checksums():
    lock = tomllib.loads((project.ROOT / "Cargo.lock").read_text())
    return {(entry["name"], entry["version"]): entry["checksum"] for entry in lock["package"] if "checksum" in entry}
