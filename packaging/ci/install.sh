#!/bin/sh
# Installs acp for a CI job, unless it is in PATH already. ACP_VERSION picks a release; ACP_INSTALL says how (pip or npm).
set -eu

if command -v acp >/dev/null 2>&1; then
    acp --version
    exit 0
fi
version=${ACP_VERSION:-}
case ${ACP_INSTALL:-pip} in
    pip) python3 -m pip install --user "acp-workbench${version:+==$version}" ;;
    npm) npm install --global "acp-workbench${version:+@$version}" ;;
    *) echo "install.sh: ACP_INSTALL is $ACP_INSTALL; it must be pip or npm" >&2; exit 2 ;;
esac
# pip's own folder may not be in PATH yet.
user_bin=$(python3 -m site --user-base 2>/dev/null || true)/bin
if [ -n "${GITHUB_PATH:-}" ] && [ -x "$user_bin/acp" ]; then
    echo "$user_bin" >> "$GITHUB_PATH"
fi
