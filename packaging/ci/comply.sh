#!/bin/sh
# Runs the compliance suite in a CI job and leaves the reports in one folder. Exits as `acp comply` does.
#   ACP_COMMAND   the command that starts the agent, such as "python3 agent.py".
#                 Not needed where acp.toml names the agent
#   ACP_EXPECTED  the file of expected failures; left out if it does not exist
#   ACP_REPORTS   where the reports go (acp-reports)
#   ACP_ARGS      further options of `acp comply`, separated by blanks
#   ACP_FORMATS   which reports to write besides badge, TAP and summary (html junit json sarif)
# On GitHub the summary goes to the job's page, failures become annotations, and the exit code becomes an output.
set -eu

if [ -z "${ACP_COMMAND:-}" ] && [ ! -f acp.toml ]; then
    echo "comply.sh: set ACP_COMMAND to the command that starts your agent, or name it in acp.toml (acp init)" >&2
    exit 2
fi
if [ -z "${ACP_COMMAND:-}" ]; then
    # The agent comes from this file: if it names none, the check fails.
    export ACP_CONFIG="${ACP_CONFIG:-acp.toml}"
fi
reports=${ACP_REPORTS:-acp-reports}
mkdir -p "$reports"

# Blanks separate the options: they are split here on purpose.
# shellcheck disable=SC2086
set -- ${ACP_ARGS:-}
if [ -n "${ACP_COMMAND:-}" ]; then
    set -- --command "$ACP_COMMAND" "$@"
fi
if [ -n "${ACP_EXPECTED:-}" ] && [ -f "$ACP_EXPECTED" ]; then
    set -- "$@" --expected "$ACP_EXPECTED"
fi
for format in ${ACP_FORMATS:-html junit json sarif} badge tap table; do
    case $format in
        html) file=report.html ;;
        junit) file=junit.xml ;;
        json) file=results.json ;;
        sarif) file=report.sarif ;;
        badge) file=badge.json ;;
        tap) file=report.tap ;;
        table) file=summary.md ;;
        *) echo "comply.sh: ACP_FORMATS names $format; it takes html junit json sarif" >&2; exit 2 ;;
    esac
    set -- "$@" --format "$format" --out "$reports/$file"
done

code=0
acp comply "$@" || code=$?

if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$reports/summary.md" ]; then
    {
        sed -n 's/^ *"message": "\(.*\)",*$/**ACP v1: \1**\n/p' "$reports/badge.json"
        cat "$reports/summary.md"
    } >> "$GITHUB_STEP_SUMMARY"
fi
if [ -n "${GITHUB_ACTIONS:-}" ] && [ "$code" != 0 ] && [ -f "$reports/report.tap" ]; then
    # A test that may fail is marked with TODO; every other failure is shown beside the change, with its reason.
    awk '
        function put() { if (title != "") print "::error title=ACP compliance::" title; title = "" }
        /^not ok / { put(); if (index($0, " # TODO") == 0) { title = $0; sub(/^not ok [0-9]+ - /, "", title); gsub(/%/, "%25", title) } next }
        /^ok / { put(); next }
        /^  reason: / { if (title != "") { reason = $0; sub(/^  reason: /, "", reason); gsub(/%/, "%25", reason); title = title " — " reason } }
        END { put() }
    ' "$reports/report.tap"
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    echo "exit-code=$code" >> "$GITHUB_OUTPUT"
fi
exit "$code"
