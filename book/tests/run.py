"""Runs every shell block of the README, the book and the examples with the real program.

    book/tests/run.py --binaries target/debug             every page
    book/tests/run.py --binaries target/debug docs/ci.md  only these
"""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import sys
import time

import pages

GENERATED = {"docs/commands.md", "docs/matrix.md"}
FOLDERS = ["docs/*.md", "examples/README.md", "examples/*/README.md", "packaging/*/README.md", "*.md"]


def every_page():
    found = sorted({path for pattern in FOLDERS for path in pages.ROOT.glob(pattern)})
    return [path for path in found if str(path.relative_to(pages.ROOT)) not in GENERATED]


def attempt(page, binaries):
    begin = time.monotonic()
    try:
        return pages.run(page, binaries), None, time.monotonic() - begin
    except pages.Wrong as wrong:
        return 0, str(wrong), time.monotonic() - begin


def stop(number, _):
    """On a signal nothing is left running."""
    for group in list(pages.RUNNING):
        pages.end(group)
    os._exit(128 + number)


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True, help="the folder that holds acp and its aliases")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="how many pages run at once")
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    chosen = [page.resolve() for page in arguments.pages] or every_page()
    failed, commands = [], 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for page, (count, wrong, took) in zip(chosen, pool.map(lambda page: attempt(page, arguments.binaries.resolve()), chosen)):
            name = page.relative_to(pages.ROOT)
            print(f"{'FAIL' if wrong else 'ok':4} {name}: {count} commands, {took:.1f} s", flush=True)
            commands += count
            if wrong:
                failed.append(name)
                print(f"{name}, {wrong}\n", flush=True)
    print(f"{len(chosen)} pages, {commands} commands, {len(failed)} pages failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
