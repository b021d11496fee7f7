#!/usr/bin/env bash
# Installs the npm packages that tests use, by name and version, into the target folder. Does nothing when they are
# there. ACP_SKIP=npm leaves them out; the tests that need them are then left out by the same word.
set -euo pipefail
cd "$(dirname "$0")/.."

case ",${ACP_SKIP:-}," in *,npm,*) printf 'npm fixtures are left out (ACP_SKIP)\n'; exit 0 ;; esac

folder="${CARGO_TARGET_DIR:-target}/fixtures/ts-sdk"
package=@agentclientprotocol/sdk
version=0.28.1

installed=$(sed -n 's/^ *"version": "\(.*\)",*$/\1/p' "$folder/node_modules/$package/package.json" 2>/dev/null | head -n 1 || true)
if [ "$installed" = "$version" ]; then
    exit 0
fi
command -v npm >/dev/null 2>&1 || {
    printf 'npm is missing: install node, or leave the tests that need it out with ACP_SKIP=npm\n' >&2
    exit 3
}
mkdir -p "$folder"
[ -f "$folder/package.json" ] || printf '{"private": true}\n' > "$folder/package.json"
npm install --prefix "$folder" --no-audit --no-fund --no-save --loglevel=error "$package@$version"
printf 'installed %s %s\n' "$package" "$version"
