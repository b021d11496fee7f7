"""Installs each package in an empty place and runs `acp --version` and a short `acp comply` there."""
import contextlib
import hashlib
import json
import os
import pathlib
import resource
import shutil
import sys
import tarfile
import tempfile
import time
import tomllib
import unittest

from support import FIXTURES, ROOT, SHORT, install_libraries, run, run_inside, skipped

from make import docker, elf, project

BINARY = pathlib.Path(os.environ["ACP_PACKAGE_BINARY"])
VERSION = f"acp {project.VERSION}\n"
# From the package to the first verdict: installation and a short run.
MOST_SECONDS = 60
# What the published binary may weigh.
MOST_MEGABYTES = 45


def processor_time():
    """The seconds that this process and those that it waited for have used."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="acp-packages-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.dist = cls.folder / "dist"
        kinds = ["wheel", "npm", "deb", "tarball", "homebrew"]
        # Without HOME cargo would not find the crates that the bill of materials lists.
        run([ROOT / "scripts/package", "--binary", BINARY, "--dist", cls.dist, "--fast", *kinds], env=dict(os.environ))

    @contextlib.contextmanager
    def first_verdict(self, kind):
        """Installing and a first verdict take less than a minute, without a network. A busy machine is not a package's
        fault: what counts is the processor's time."""
        begin, used = time.monotonic(), processor_time()
        yield
        seconds, busy = time.monotonic() - begin, processor_time() - used
        print(f"{kind}: {seconds:.1f} s to the first verdict ({busy:.1f} s of the processor)", file=sys.stderr)
        self.assertLess(busy, MOST_SECONDS, kind)

    def one(self, pattern):
        found = list(self.dist.glob(pattern))
        self.assertEqual(len(found), 1, f"{pattern} in {list(self.dist.iterdir())}")
        return found[0]

    def new_folder(self, name):
        folder = self.folder / name
        folder.mkdir()
        return folder

    def works(self, acp, *before, **options):
        """The installed program says its version and finds the mock conformant and a faulty mock not."""
        self.assertEqual(run([acp, *before, "--version"], **options), VERSION)
        run([acp, *before, "comply", "--agent", "mock", *SHORT], **options)

    def is_comply(self, acpcomply):
        self.assertEqual(run([acpcomply, "--version"]), VERSION)
        self.assertEqual(run([acpcomply, "--list-tests", *SHORT]), run([BINARY, "comply", "--list-tests", *SHORT]))

    def test_the_wheel_installs_and_its_pytest_plugin_judges_the_sample_agents(self):
        if skipped("pip"):
            self.skipTest("ACP_SKIP")
        place = self.new_folder("python")
        python, wheel = place / "venv/bin/python", self.one("*.whl")
        with self.first_verdict("wheel"):
            run([sys.executable, "-m", "venv", "--without-pip", place / "venv"])
            run([sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel])
            self.works(place / "venv/bin/acp", cwd=place)
        self.assertEqual(run([place / "venv/bin/acp-workbench", "--version"]), VERSION)
        self.assertEqual(run([python, "-m", "acp_workbench", "--version"]), VERSION)
        self.is_comply(place / "venv/bin/acpcomply")
        sample = shutil.copytree(ROOT / "examples/python-agent", place / "sample")
        said = run([python, "-m", "pytest", "-v", "-p", "no:cacheprovider"], cwd=sample, env={"PYTHONPATH": str(FIXTURES / "pytest")})
        self.assertIn("5 passed", said)

    def test_the_wheel_lists_every_file_with_its_hash(self):
        place = self.new_folder("wheel")
        shutil.unpack_archive(self.one("*.whl"), place, "zip")
        record, = place.glob("*.dist-info/RECORD")
        listed = {line.split(",")[0] for line in record.read_text().splitlines()}
        self.assertEqual(listed, {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()})

    def test_the_npm_packages_install_and_their_library_judges_the_sample_agents(self):
        if skipped("npm"):
            self.skipTest("ACP_SKIP")
        sample = shutil.copytree(ROOT / "examples/node-agent", self.folder / "node")
        (sample / "package.json").write_text('{"private": true, "type": "module"}\n')
        home = {"HOME": str(self.new_folder("npm-home"))}
        packages = [self.one("acp-workbench-linux-*.tgz"), self.one(f"acp-workbench-{project.VERSION}.tgz")]
        with self.first_verdict("npm"):
            run(["npm", "install", "--offline", "--no-audit", "--no-fund", *packages], cwd=sample, env=home)
            self.works("npx", "--offline", "acp-workbench", cwd=sample, env=home)
        run([sample / "node_modules/.bin/acp", "comply", "--no-such-flag"], code=2)
        self.is_comply(sample / "node_modules/.bin/acpcomply")
        self.assertIn("# fail 0", run(["node", "--test", "--test-reporter=tap", "test/"], cwd=sample))
        (sample / "node_modules/vitest").symlink_to(FIXTURES / "vitest/node_modules/vitest")
        self.assertIn("4 passed", run(["node", "node_modules/vitest/vitest.mjs", "run"], cwd=sample, env={"NO_COLOR": "1"}))

    def test_the_debian_package_works_in_an_empty_root(self):
        package, root = self.one("*.deb"), self.new_folder("debian")
        fields = run(["dpkg-deb", "--field", package, "Package", "Version"])
        self.assertEqual(fields, f"Package: {project.NAME}\nVersion: {project.VERSION}\n")
        with self.first_verdict("deb"):
            run(["dpkg-deb", "--extract", package, root])
            install_libraries(root, BINARY)
            self.assertEqual(run_inside(root, ["/usr/bin/acp", "--version"]), VERSION)
            run_inside(root, ["/usr/bin/acp", "comply", "--agent", "mock", *SHORT])
        for name in ("man/man1/acp-comply.1.gz", "bash-completion/completions/acp"):
            self.assertTrue((root / "usr/share" / name).is_file(), name)
        self.assertEqual(run([root / "usr/bin/mock-acp-server", "--help"]), run([BINARY, "mock", "--help"]))

    def test_the_tarball_matches_its_checksum_and_works(self):
        tarball, place = self.one("*.tar.gz"), self.new_folder("tarball")
        run(["sha256sum", "--check", tarball.name + ".sha256"], cwd=self.dist)
        with self.first_verdict("tarball"):
            shutil.unpack_archive(tarball, place)
            top, = place.iterdir()
            self.works(top / "bin/acp", cwd=place)
        self.is_comply(top / "bin/acpcomply")

    def test_the_tarball_works_in_an_empty_root(self):
        root = self.new_folder("empty")
        install_libraries(root, BINARY)
        with self.first_verdict("tarball in an empty root"):
            shutil.unpack_archive(self.one("*.tar.gz"), root)
            top, = root.glob(f"{project.NAME}-*")
            acp = f"/{top.name}/bin/acp"
            self.assertEqual(run_inside(root, [acp, "--version"]), VERSION)
            run_inside(root, [acp, "comply", "--agent", "mock", *SHORT])

    def test_the_published_binary_is_static_and_small(self):
        if not elf.read(BINARY).static:
            self.skipTest("this is not the published binary; give the static one with --binary")
        self.assertLess(BINARY.stat().st_size, MOST_MEGABYTES * 1_000_000)
        install_libraries(self.new_folder("libraries"), BINARY)
        self.assertEqual(list((self.folder / "libraries").iterdir()), [])

    def test_the_bill_of_materials_names_what_is_compiled_in_and_no_more(self):
        bill = json.loads(self.one("*.cdx.json").read_text())
        self.assertEqual((bill["bomFormat"], bill["metadata"]["component"]["version"]), ("CycloneDX", project.VERSION))
        parts = {part["name"]: part for part in bill["components"]}
        self.assertIn("acp-rules", parts)
        self.assertEqual(len(parts["tokio"]["hashes"][0]["content"]), 64)
        self.assertTrue({"proptest", "acp-testkit", "acp-bench"}.isdisjoint(parts), "only tests need these")
        self.assertEqual([name for name, part in parts.items() if "licenses" not in part], [])
        known = {part["bom-ref"] for part in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
        for entry in bill["dependencies"]:
            self.assertLessEqual({entry["ref"], *entry["dependsOn"]}, known)

    def test_cargo_binstall_finds_the_binary_in_the_tarball(self):
        crate = tomllib.loads((ROOT / "crates/acp/Cargo.toml").read_text())["package"]
        settings = crate["metadata"]["binstall"]
        values = {
            "{ name }": project.NAME, "{ version }": project.VERSION, "{ target }": elf.read(BINARY).triple,
            "{ bin }": "acp", "{ binary-ext }": "",
        }

        def filled(template):
            for name, value in values.items():
                template = template.replace(name, value)
            return template

        tarball = self.one("*.tar.gz")
        self.assertEqual(filled(settings["pkg-url"]).rsplit("/", 1)[1], tarball.name)
        with tarfile.open(tarball) as content:
            self.assertIn(filled(settings["bin-dir"]), content.getnames())

    def test_the_image_needs_nothing_but_its_own_files(self):
        context = self.new_folder("docker")
        docker.fill(context, BINARY)
        lines = [line for line in (context / "Dockerfile").read_text().splitlines() if line and line[0] != "#"]
        self.assertEqual(lines[:2], ["FROM scratch", "COPY rootfs/ /"])
        entry = json.loads(lines[-1].removeprefix("ENTRYPOINT "))
        root = context / "rootfs"
        install_libraries(root, BINARY)
        self.assertEqual(run_inside(root, [*entry, "--version"]), VERSION)
        # A connection over plain HTTP needs none of the certificates that the image lacks.
        run_inside(root, [*entry, "comply", "--agent", "mock", *SHORT, "--test", "mcp.http"])

    def test_the_formula_names_the_tarball_and_its_checksum(self):
        formula, tarball = self.one("*.rb").read_text(), self.one("*.tar.gz")
        self.assertNotRegex(formula, "@[A-Z0-9_]+@")
        self.assertIn(f'sha256 "{hashlib.sha256(tarball.read_bytes()).hexdigest()}"', formula)
        self.assertIn(f"/{tarball.name}\"", formula)


if __name__ == "__main__":
    unittest.main()
