#!/usr/bin/env bash
# Installs the vendors' own client libraries, with which the scripted model endpoint is tested, into the target folder.
# Does nothing when they are there. ACP_SKIP=pip leaves them out; the test that needs them is left out by the same word.
set -euo pipefail
cd "$(dirname "$0")/.."

case ",${ACP_SKIP:-}," in *,pip,*) printf 'model client libraries are left out (ACP_SKIP)\n'; exit 0 ;; esac

folder="${CARGO_TARGET_DIR:-target}/fixtures/model-clients"
packages=(openai==3.49.0 anthropic==2.8.0 google-genai==3.1.0)

if [ "$(cat "$folder/installed" 2>/dev/null || true)" = "${packages[*]}" ]; then
    exit 0
fi
python3 -m pip --version >/dev/null 2>&1 || {
    printf 'pip is missing: install python3-pip, or leave the test that needs it out with ACP_SKIP=pip\n' >&2
    exit 3
}
rm -rf "$folder"
mkdir -p "$folder"
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" "${packages[@]}"
printf '%s' "${packages[*]}" > "$folder/installed"
printf 'installed %s\n' "${packages[*]}"
