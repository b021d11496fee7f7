"""Runs the shell steps of action.yml as a CI system does, on a conforming and on a faulty agent."""
import json
import os
import pathlib
import re
import tempfile
import unittest
import xml.etree.ElementTree as xml

from support import ROOT, run

BINARY = pathlib.Path(os.environ["ACP_PACKAGE_BINARY"]).resolve()


def steps(inputs):
    """The steps of action.yml that run a command: (name, command, environment)."""
    text = (ROOT / "action.yml").read_text()
    head, body = text.split("\nruns:\n")
    defaults = dict(re.findall(r"^  ([\w-]+):\n(?:    .*\n)*?    default: '?(.*?)'?$", head, re.M))
    values = {**defaults, **inputs}
    for step in body.split("    - name: ")[1:]:
        if command := re.search(r"^      run: (.*)$", step, re.M):
            names = re.findall(r"^        (ACP_\w+): \$\{\{ inputs\.([\w-]+) \}\}$", step, re.M)
            yield step.splitlines()[0], command[1], {name: values[key] for name, key in names}


class Action(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="acp-ci-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "acp").symlink_to(BINARY)
        self.github = {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
        }

    def act(self, agent, code, **inputs):
        inputs = {"command": f"python3 {ROOT}/examples/python-agent/{agent}", **inputs}
        said = {}
        for name, command, environment in steps(inputs):
            wanted = code if name == "Run the compliance suite" else 0
            said[name] = run(["sh", "-c", command], code=wanted, cwd=self.folder, env={**self.github, **environment})
        self.assertEqual(list(said), ["Install acp", "Run the compliance suite"])
        self.assertEqual((self.folder / "output").read_text(), f"exit-code={code}\n")
        self.reports = self.folder / "acp-reports"
        return said["Run the compliance suite"]

    def test_a_conforming_agent_leaves_every_report_and_no_annotation(self):
        said = self.act("agent.py", 0, args="--test init.version-echo")
        self.assertNotIn("::error", said)
        self.assertIn("<html", (self.reports / "report.html").read_text())
        self.assertEqual(xml.parse(self.reports / "junit.xml").getroot().get("failures"), "0")
        self.assertEqual(json.loads((self.reports / "badge.json").read_text())["color"], "brightgreen")
        sarif = json.loads((self.reports / "report.sarif").read_text())
        self.assertEqual((sarif["version"], sarif["runs"][0]["tool"]["driver"]["name"]), ("2.1.0", "acp comply"))
        self.assertNotIn("error", [result["level"] for result in sarif["runs"][0]["results"]])
        self.assertIn("CONFORMANT", (self.folder / "summary").read_text())

    def test_a_faulty_agent_fails_the_job_with_an_annotation(self):
        said = self.act("faulty_agent.py", 1, args="--test init.version-echo")
        self.assertRegex(said, r"::error title=ACP compliance::\S+ init\.version-echo: .* — ")
        sarif = json.loads((self.reports / "report.sarif").read_text())
        failed = [result for result in sarif["runs"][0]["results"] if result["level"] == "error"]
        self.assertTrue(failed)
        self.assertTrue(failed[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith(".jsont"))
        self.assertIn("NOT CONFORMANT", (self.folder / "summary").read_text())

    def test_the_baseline_of_expected_failures_lets_the_job_pass(self):
        expected = ROOT / "examples/python-agent/acp-expected.txt"
        said = self.act("agent.py", 0, expected=str(expected), args="--test mcp.stdio --test init.version-echo")
        self.assertNotIn("::error", said)

    def test_the_files_of_init_are_all_that_the_action_needs(self):
        agent = f"python3 {ROOT}/examples/python-agent/agent.py"
        run([BINARY, "init", "--command", agent, "--no-run"], cwd=self.folder, env=self.github)
        self.assertIn("acp-workbench@v", (self.folder / ".github/workflows/acp.yml").read_text())
        said = self.act("", 0, command="", args="--test init.version-echo")
        self.assertNotIn("::error", said)
        self.assertIn("init.version-echo", (self.reports / "junit.xml").read_text())

    def test_a_stale_baseline_fails_the_job(self):
        expected = self.folder / "acp-expected.txt"
        expected.write_text("init.version-echo  it was broken once\n")
        self.act("agent.py", 4, args="--test init.version-echo")


if __name__ == "__main__":
    unittest.main()
