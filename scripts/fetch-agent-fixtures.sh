#!/usr/bin/env bash
# Installs one real agent, the smallest whose model can be ours, into the target folder, laid out as `acp profiles
# install` does it. Does nothing when it is there. ACP_SKIP=npm leaves it out; the test that needs it is left out by
# the same word.
set -euo pipefail
cd "$(dirname "$0")/.."

case ",${ACP_SKIP:-}," in *,npm,*) printf 'the real agent is left out (ACP_SKIP)\n'; exit 0 ;; esac

name=gemini
field() { sed -n "s/^ *\"$1\": \"\\(.*\\)\",*\$/\\1/p" "profiles/$name.json" | head -n 1; }
package=$(field package)
version=$(field version)
folder="${CARGO_TARGET_DIR:-target}/fixtures/agents-cache/agents/$name-$version"

[ -e "$folder/installed.json" ] && exit 0
command -v npm >/dev/null 2>&1 || {
    printf 'npm is missing: install node, or leave the test that needs it out with ACP_SKIP=npm\n' >&2
    exit 3
}
rm -rf "$folder"
mkdir -p "$folder"
printf '{"private": true}\n' > "$folder/package.json"
npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "$package@$version"
printf '{"bin": "node_modules/.bin", "packages": {"npm": ["%s@%s"], "pip": []}}' "$package" "$version" > "$folder/installed.json"
printf 'installed %s %s\n' "$package" "$version"
