#!/usr/bin/env python3
"""The tests that a change reaches, for tools/test.sh.

    changed_tests.py BUILD_DIR [BASE]         two lines: the targets to build, and an expression for ctest -R. A changed header counts
                                              for every folder whose objects include it, as the build last saw; suites come from
                                              tests/reach.txt
    changed_tests.py BUILD_DIR BASE --linked  two lines: an expression for ctest -R, and the fuzz targets: all of a finished build whose
                                              programs are linked from an object that was compiled of something changed. What is left
                                              out goes to stderr

A change is what differs from the commit BASE (HEAD if left out) in the working tree.
"""
import functools
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
    return run("tools/changed_files.sh", base).split()


def folder_of(path):
    """"src/train" of src/train/guard/limits.cpp, "jobs" of jobs/train.cpp."""
    parts = pathlib.PurePath(path).parts
    return "/".join(parts[:2]) if parts[0] in ("src", "tests") and len(parts) > 2 else parts[0]


def objects_of(build, files):
    """The objects of a build that were compiled of one of these files."""
    wanted = {str(SOURCE / file) for file in files}
    objects, target = set(), None
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
        elif target and os.path.normpath(os.path.join(build, line.strip())) in wanted:
            objects.add(target)
    return objects


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


def expression_for(names):
    return "^(" + "|".join(map(re.escape, names)) + ")$"


def print_linked(build, base):
    files = changed_files(base)
    objects = objects_of(build, files)
    folders = {pathlib.PurePath(path).parts[1] for path in files if path.startswith("tests/")}

    @functools.cache
    def is_reached(program):
        return not objects.isdisjoint(run("ninja", "-C", build, "-t", "inputs", os.path.relpath(program, build)).split())

    tests, fuzzers = all_tests(build), sorted((build / "bin").glob("fuzz_*"))
    chosen = [name for name, folder, programs in tests if not programs or folder in folders or any(map(is_reached, programs))]
    chosen_fuzzers = [program.name for program in fuzzers if is_reached(program)]
    left_out = sorted({test[0] for test in tests} - set(chosen) | {program.name for program in fuzzers} - set(chosen_fuzzers))
    print(f"{len(chosen)} of {len(tests)} tests and {len(chosen_fuzzers)} of {len(fuzzers)} fuzz targets reach what changed since {base[:12]}; "
          f"left out: {' '.join(left_out) or 'none'}", file=sys.stderr)
    print(expression_for(chosen))
    print(" ".join(chosen_fuzzers))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if "--linked" in sys.argv:
        return print_linked(build, sys.argv[2])
    files = changed_files(sys.argv[2] if len(sys.argv) > 2 else "HEAD")
    folders = {folder_of(path) for path in files}
    folders |= set(map(folder_of, objects_of(build, [path for path in files if path.endswith((".hpp", ".h"))])))
    patterns = [pattern for folder in folders for pattern in table().get(folder, [])]
    patterns += [f"job_{pathlib.Path(path).name.removesuffix('_test.py')}(_.*)?" for path in files if path.startswith("tests/jobs/")]
    suites = [re.compile(pattern) for pattern in patterns]
    own = {folder.partition("/")[2] for folder in folders if folder.startswith(("src/", "tests/"))}
    chosen = [test for test in all_tests(build)
              if test[1] in own - {"jobs", "slurm", "support"} or test[0] in ("layers", "documents")
              or any(suite.fullmatch(test[0]) for suite in suites)]
    print(" ".join(sorted(targets_of(build, set().union(*(test[2] for test in chosen), set())))))
    print(expression_for(test[0] for test in chosen))


if __name__ == "__main__":
    main()
