#!/usr/bin/env python3
"""The tests that a change reaches, for tools/test.sh.

    changed_tests.py BUILD_DIR BASE SECONDS   two lines: the targets to build, and an expression for ctest -R: the tests that
                                              tests/reach.txt names for what changed, the first of each file first, as many as cost these
                                              processor seconds by tests/COST.md. What is left out goes to stderr
    changed_tests.py BUILD_DIR BASE --linked  two lines: an expression for ctest -R, and the fuzz targets: all of a finished build whose
                                              programs are linked from an object that was compiled of something changed. What is left
                                              out goes to stderr

A change is what differs from the commit BASE in the working tree.
"""
import functools
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import test_cost

SOURCE = pathlib.Path(__file__).resolve().parents[1]
# Tests of what is not compiled, and the two that read every file.
TESTS_OF_FOLDER = {"configs": "job_commands|job_quickstart.*", "slurm": "slurm_.*|hosts_Launch", "tools": "tools.*"}
TESTS_OF_ALL = ["documents", "layers"]


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, cwd=SOURCE).stdout


def changed_files(base):
    return run("tools/changed_files.sh", base).split()


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
    """Of each file of src/ and jobs/, the tests that run it."""
    rows = [line.split() for line in (SOURCE / "tests/reach.txt").read_text().splitlines() if not line.startswith("#")]
    return {words[0]: words[1:] for words in rows}


def in_turn(lists):
    """The first of each list, then the second of each, ...; each once."""
    columns = itertools.zip_longest(*lists)
    return list(dict.fromkeys(name for column in columns for name in column if name))


def tests_of(path, rows, tests):
    """Names of the tests of a changed file, those that see most first. A file that is new, or that has nothing to run, has those of the
    files of the same name, or else of the nearest folder in which a file has some."""
    parts = pathlib.PurePath(path).parts
    if parts[0] in ("src", "jobs"):
        near = [row for file, row in rows.items() if pathlib.PurePath(file).with_suffix("") == pathlib.PurePath(path).with_suffix("")]
        folders = ([row for file, row in rows.items() if pathlib.PurePath(file).parent == folder] for folder in pathlib.PurePath(path).parents)
        return rows.get(path) or in_turn(near or next(filter(None, folders), []))
    if path.startswith("tests/jobs/"):
        pattern = f"job_{pathlib.PurePath(path).name.removesuffix('_test.py')}(_.*)?"
    elif parts[0] == "tests":
        return [name for name, folder, _ in tests if folder == parts[1]]
    else:
        pattern = TESTS_OF_FOLDER.get(parts[0], "")
    return [name for name, _, _ in tests if re.fullmatch(pattern, name)]


def within(seconds, names):
    """The names whose tests cost no more together, each that still fits, and the others."""
    costs, chosen, others = test_cost.known_seconds(), [], []
    for name in names:
        cost = costs.get(name, 1.0)
        if cost > seconds:
            others.append(name)
            continue
        seconds -= cost
        chosen.append(name)
    return chosen, others


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


def print_chosen(build, base, seconds):
    tests, rows = all_tests(build), table()
    found = in_turn(tests_of(path, rows, tests) for path in changed_files(base))
    chosen, others = within(seconds, found)
    chosen = [test for test in tests if test[0] in chosen + TESTS_OF_ALL]
    print(f"{len(chosen)} tests within {seconds:g} processor seconds; left out: {' '.join(others) or 'none'}", file=sys.stderr)
    print(" ".join(sorted(targets_of(build, set().union(*(programs for _, _, programs in chosen))))))
    print(expression_for(name for name, _, _ in chosen))


def main():
    build, base, rest = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    if rest == "--linked":
        print_linked(build, base)
    else:
        print_chosen(build, base, float(rest))


if __name__ == "__main__":
    main()
