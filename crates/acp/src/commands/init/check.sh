#!/bin/sh
# Checks this agent against the Agent Client Protocol. Written by `acp init`; change it as you like.
# acp.toml says how to start the agent, acp-expected.txt which failures are known. Exits as `acp comply` does:
# 0 conformant, 1 not conformant, 3 incomplete, 4 a known failure no longer happens.
set -eu
cd "$(dirname "$0")"
# The agent comes from this file and from nowhere else: if it is missing, the check fails.
export ACP_CONFIG=acp.toml
command -v acp >/dev/null || python3 -m pip install --user acp-workbench
mkdir -p acp-reports
exec acp comply --format terminal \
    --format html --out acp-reports/report.html \
    --format junit --out acp-reports/junit.xml \
    --format sarif --out acp-reports/report.sarif
