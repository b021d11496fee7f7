#!/usr/bin/env bash
# Builds the binaries, links them into bin/, starts mock agents with the flags that each scenario needs, and runs all
# scenarios of the harness against them, in v1 and in the delta form.
#
#   test/scripts/validate-acp.sh              everything against our own mock
#   ACP_TARGET=localhost:3000 test/scripts/validate-acp.sh [--dialect delta]
#                                             all scenarios against an agent that already listens
#
# Environment: PROFILE=debug (default) or release; CARGO_TARGET_DIR as usual; SKIP_BUILD=1 uses what is built;
# FORMS="v1 delta" names the forms to go through.
# Exit code: 0 nothing failed, 1 a scenario failed, 2 or 3 something could not be run.
set -u

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit 3
profile=${PROFILE:-debug}
target_dir=${CARGO_TARGET_DIR:-$root/target}

if [ "${SKIP_BUILD:-}" != 1 ]; then
    flags=()
    [ "$profile" = release ] && flags=(--release)
    cargo build --quiet -p acp-workbench --bins "${flags[@]}" || exit 3
fi
mkdir -p bin
for name in acp acp-harness mock-acp-server acpcomply; do
    ln -sf "$target_dir/$profile/$name" "bin/$name"
done

if [ -n "${ACP_TARGET:-}" ]; then
    exec ./bin/acp-harness "$@"
fi

work=$(mktemp -d)
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

worst=0
passed=()
failed=()

# start FLAG… : a mock on a free port; its address is in $address, its process in $mock.
start() {
    local log="$work/mock.${#pids[@]}"
    ./bin/mock-acp-server --port 0 "$@" >"$log" 2>"$log.err" &
    mock=$!
    pids+=("$mock")
    address=
    for _ in $(seq 200); do
        address=$(sed -n 's/.*"listening":"\([^"]*\)".*/\1/p' "$log" 2>/dev/null)
        [ -n "$address" ] && return 0
        kill -0 "$mock" 2>/dev/null || break
        sleep 0.05
    done
    echo "the mock did not start:" >&2
    cat "$log.err" >&2
    exit 3
}

# check NAME ARG… : runs the harness and keeps the score. Every scenario must really apply: NA is a failure here.
check() {
    local name=$1 code
    shift
    echo "== $name"
    ./bin/acp-harness "$@" | tee "$work/report"
    code=${PIPESTATUS[0]}
    if [ "$code" -eq 0 ] && grep -Eq '^[a-z-]+ +NA ' "$work/report"; then
        echo "a scenario did not apply, although the mock was started for it"
        code=1
    fi
    if [ "$code" -eq 0 ]; then passed+=("$name"); else failed+=("$name"); fi
    [ "$code" -gt "$worst" ] && worst=$code
    echo
}

plain=happy-path,multi-turn,cancel,session-load,permission-handling,error-handling,concurrent-sessions,mcp-passthrough,mcp-hot-reload,framing,disconnect
for dialect in ${FORMS:-v1 delta}; do
    start --dialect "$dialect" --state-dir "$work/state-$dialect"
    check "$dialect: plain" --target "$address" --dialect "$dialect" --scenarios "$plain"

    start --dialect "$dialect"
    check "$dialect: slow client" --target "$address" --dialect "$dialect" --scenarios slow-client
    peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$mock/status" 2>/dev/null)
    if [ -n "$peak" ]; then
        echo "   the mock's memory peaked at $((peak / 1024)) MiB"
        if [ "$peak" -gt $((256 * 1024)) ]; then
            failed+=("$dialect: memory of the slow client's agent")
            worst=1
        fi
        echo
    fi

    start --dialect "$dialect" --send-permissions
    check "$dialect: permissions" --target "$address" --dialect "$dialect" --scenarios permission-handling
    start --dialect "$dialect" --fail-on-prompt
    check "$dialect: failing prompts" --target "$address" --dialect "$dialect" --scenarios fail-on-prompt
    start --dialect "$dialect" --max-sessions 4
    check "$dialect: session limit" --target "$address" --dialect "$dialect" --scenarios max-sessions
    start --dialect "$dialect" --require-auth
    check "$dialect: login" --target "$address" --dialect "$dialect" --scenarios auth-required

    check "$dialect: after a restart" --dialect "$dialect" --scenarios session-load \
        --command "$root/bin/acp mock --stdio --dialect $dialect --state-dir \${home}/sessions"
done

echo "passed: ${#passed[@]}, failed: ${#failed[@]}"
for name in "${failed[@]}"; do echo "  failed: $name"; done
exit "$worst"
