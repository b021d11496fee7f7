#!/usr/bin/env python3
"""Writes the totals of a campaign (scripts/real-agents) into a page, between its two marks.

    scripts/real-agents.py RESULTS_FOLDER PAGE
"""
import collections
import glob
import json
import os
import sys

BEGIN, END = "<!-- totals: written by scripts/real-agents -->", "<!-- end of totals -->"
VERDICTS = ["PASS", "FAIL", "WARN", "PARTIAL", "NA", "ERROR"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def runs_of(folder):
    """The runs of the suite by agent, in their order."""
    found = collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(folder, "*.suite.*.json"))):
        results = read(path)
        for agent in results["agents"]:
            found[agent["name"]].append((results, agent))
    return found


def isolation(agent):
    kept = agent.get("isolation") or {}
    words = "own network, loopback only" if kept.get("loopbackOnly") else "the machine's network"
    if kept.get("user"):
        words += f", as user {kept['user']}"
    outside = kept.get("outside")
    if outside is not None:
        tried = outside["noRoute"] + outside["noPort"]
        words += f"; {tried} attempts to reach outside" if tried else "; nothing tried to reach outside"
    return words


def totals(found):
    lines = ["| agent | version | run on | tests | " + " | ".join(VERDICTS) + " | runner's share | isolation |"]
    lines.append("|---" * (len(VERDICTS) + 6) + "|")
    for runs in found.values():
        for results, agent in runs:
            count = collections.Counter(test["verdict"] for test in agent["tests"])
            cost = agent.get("cost") or {}
            share = 100 * cost["runnerMs"] / cost["agentMs"] if cost.get("agentMs") else 0
            cells = [agent["name"], agent.get("version", "-"), results["started"][:10], str(len(agent["tests"]))]
            cells += [str(count[verdict]) for verdict in VERDICTS]
            cells += [f"{share:.1f} % ({cost.get('runnerMs', 0) / 1000:.0f} s of {cost.get('agentMs', 0) / 1000:.0f} s)"]
            lines.append("| " + " | ".join(cells + [isolation(agent)]) + " |")
    return lines


def repeated(found):
    """Where the verdicts of two runs differ."""
    lines = ["", "Two runs in a row, verdict by verdict:", ""]
    for name, runs in found.items():
        if len(runs) < 2:
            lines.append(f"- **{name}**: run once")
            continue
        first, second = ({test["id"]: test["verdict"] for test in run["tests"]} for _, run in runs[:2])
        both = sorted(set(first) & set(second))
        differ = [f"{id} ({first[id]}, then {second[id]})" for id in both if first[id] != second[id]]
        words = f"the same for all {len(both)} tests" if not differ else f"the same for {len(both) - len(differ)} of {len(both)} tests; not for " + ", ".join(differ)
        missing = len(first) - len(both)
        lines.append(f"- **{name}**: {words}" + (f"; {missing} tests were run once" if missing else ""))
    return lines


def scenarios(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.scenarios.json"))):
        for agent in read(path)["agents"]:
            by_area = collections.defaultdict(set)
            for test in agent["tests"]:
                by_area[test["area"]].add(test["verdict"])
            rows.append((agent["name"], by_area))
    if not rows:
        return []
    areas = sorted({area for _, by_area in rows for area in by_area})
    lines = ["", "Scenarios (`acp harness`), the worst verdict of each:", "", "| scenario | " + " | ".join(name for name, _ in rows) + " |"]
    lines.append("|---" * (len(rows) + 1) + "|")
    order = ["FAIL", "ERROR", "PARTIAL", "WARN", "PASS", "NA"]
    for area in areas:
        cells = [next((word for word in order if word in by_area.get(area, ())), "-") for _, by_area in rows]
        lines.append("| " + " | ".join([area] + cells) + " |")
    return lines


def main():
    folder, page = sys.argv[1:]
    found = runs_of(folder)
    text = "\n".join([BEGIN, ""] + totals(found) + repeated(found) + scenarios(folder) + ["", END])
    with open(page, encoding="utf-8") as file:
        old = file.read()
    before, rest = old.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(page, "w", encoding="utf-8") as file:
        file.write(before + text + after)


main()
