#!/usr/bin/env python3
"""The tests that a change reaches, and the targets that they need: two lines, for tools/test.sh --changed.

    changed_tests.py BUILD_DIR [BASE]

A change is what differs from the commit BASE (HEAD if left out) in the working tree. A changed header counts for every
folder whose objects include it, as the build last saw; suites come from tests/reach.txt.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, cwd=SOURCE).stdout


def changed_files(base):
    tracked = run("git", "diff", "--name-only", base).split()
    return tracked + run("git", "ls-files", "--others", "--exclude-standard").split()


def folder_of(path):
    """"src/train" of src/train/guard/limits.cpp, "jobs" of jobs/train.cpp."""
    parts = pathlib.PurePath(path).parts
    return "/".join(parts[:2]) if parts[0] in ("src", "tests") and len(parts) > 2 else parts[0]


def including_folders(build, headers):
    """The folders of src/, jobs/ and tests/ whose objects include one of these files."""
    wanted = {str(SOURCE / header) for header in headers}
    folders, target = set(), None
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
        elif target and os.path.normpath(os.path.join(build, line.strip())) in wanted:
            folders.add(folder_of(target))
    return folders


def table():
    lines = (SOURCE / "tests/reach.txt").read_text().splitlines()
    return {words[0]: words[1:] for words in map(str.split, lines) if words and not words[0].startswith("#")}


def all_tests(build):
    """(name, folder below tests/, programs) of each test."""
    tests = []
    for test in json.loads(run("ctest", "--test-dir", build, "--show-only=json-v1"))["tests"]:
        properties = {item["name"]: item["value"] for item in test.get("properties", [])}
        words = test.get("command", []) + [word.partition("=")[2] for word in properties.get("ENVIRONMENT", [])]
        folder = pathlib.Path(properties["WORKING_DIRECTORY"]).relative_to(build / "tests").parts
        bins = {word for word in words if word.startswith(str(build / "bin"))}
        tests.append((test["name"], folder[0] if folder else "", bins))
    return tests


def targets_of(build, programs):
    """As ninja names them; a test of whole jobs takes the programs with fault points and the suite runner as well."""
    targets = {os.path.relpath(program, build) for program in programs}  # as `bin/load_test`
    if "bin/sluice" in targets:
        targets |= {"bin/faults/sluice", "bin/sluice-suite-runner"}
    return targets


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    files = changed_files(sys.argv[2] if len(sys.argv) > 2 else "HEAD")
    folders = {folder_of(path) for path in files}
    folders |= including_folders(build, [path for path in files if path.endswith((".hpp", ".h"))])
    patterns = [pattern for folder in folders for pattern in table().get(folder, [])]
    patterns += [f"job_{pathlib.Path(path).name.removesuffix('_test.py')}(_.*)?" for path in files if path.startswith("tests/jobs/")]
    suites = [re.compile(pattern) for pattern in patterns]
    own = {folder.partition("/")[2] for folder in folders if folder.startswith(("src/", "tests/"))}
    chosen = [test for test in all_tests(build)
              if test[1] in own - {"jobs", "slurm", "support"} or test[0] in ("layers", "documents")
              or any(suite.fullmatch(test[0]) for suite in suites)]
    print(" ".join(sorted(targets_of(build, set().union(*(test[2] for test in chosen), set())))))
    print("^(" + "|".join(re.escape(test[0]) for test in chosen) + ")$")


if __name__ == "__main__":
    main()
