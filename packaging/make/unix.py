"""What the tarball and the Debian package both install: binary, further names, manual pages, shell completions."""
import gzip

from . import project


def files(context):
    """Installed files below a prefix: name → (content, mode)."""
    binary = context.runnable
    found = {"bin/acp": (context.binary, 0o755)}
    for name, command in project.ALIASES.items():
        found[f"bin/{name}"] = (_alias(command), 0o755)
    pages = {"acp": [], **{f"acp-{command}": [command] for command in _commands(binary)}}
    for page, arguments in pages.items():
        text = project.output_of(binary, "man", *arguments)
        found[f"share/man/man1/{page}.1.gz"] = (gzip.compress(text, 9, mtime=0), 0o644)
    for shell, place in (
        ("bash", "share/bash-completion/completions/acp"),
        ("zsh", "share/zsh/vendor-completions/_acp"),
        ("fish", "share/fish/vendor_completions.d/acp.fish"),
    ):
        found[place] = (project.output_of(binary, "completions", shell), 0o644)
    for name in project.LICENSE_FILES:
        found[f"share/doc/{project.NAME}/{name}"] = (project.ROOT / name, 0o644)
    return found


def _alias(command):
    return (
        '#!/bin/sh\n'
        'acp="$(dirname -- "$(readlink -f -- "$0")")/acp"\n'
        'case ${1:-} in --version | -V) exec "$acp" --version ;; esac\n'
        f'exec "$acp" {command} "$@"\n'
    )


def _commands(binary):
    """The commands that have a manual page, as the completion script of fish names them."""
    script = project.output_of(binary, "completions", "fish").decode()
    found = set()
    for line in script.splitlines():
        if '-n "__fish_acp_needs_command"' in line and ' -a "' in line:
            found.add(line.split(' -a "')[1].split('"')[0])
    return sorted(found - {"help", "man", "completions"})
