#!/usr/bin/env bash
# Installs the test runners that the sample projects use (pytest, vitest) into the target folder. Does nothing when they
# are there. ACP_SKIP=pip or ACP_SKIP=npm leaves one out; the test that needs it is then left out by the same word.
set -euo pipefail
cd "$(dirname "$0")/.."

fixtures="${CARGO_TARGET_DIR:-target}/fixtures"
pytest=8.4.2
vitest=3.2.4
skip() { case ",${ACP_SKIP:-}," in *",$1,"*) return 0 ;; *) return 1 ;; esac; }

if skip pip; then
    printf 'pytest is left out (ACP_SKIP)\n'
elif [ ! -d "$fixtures/pytest/pytest-$pytest.dist-info" ]; then
    rm -rf "$fixtures/pytest"
    python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --target "$fixtures/pytest" "pytest==$pytest"
    printf 'installed pytest %s\n' "$pytest"
fi

if skip npm; then
    printf 'vitest is left out (ACP_SKIP)\n'
elif ! grep -q "\"version\": \"$vitest\"" "$fixtures/vitest/node_modules/vitest/package.json" 2>/dev/null; then
    rm -rf "$fixtures/vitest"
    mkdir -p "$fixtures/vitest"
    printf '{"private": true}\n' > "$fixtures/vitest/package.json"
    npm install --prefix "$fixtures/vitest" --no-audit --no-fund --no-save --loglevel=error "vitest@$vitest"
    printf 'installed vitest %s\n' "$vitest"
fi
