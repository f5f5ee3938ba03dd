#!/usr/bin/env python3
"""Measures which tests run which source file, and writes the table that `tools/test.sh --changed` chooses tests by.

    cmake --preset coverage && cmake --build --preset coverage && tools/test_reach.py build/coverage [-o tests/reach.txt] [-R REGEX]

For each file of src/ and jobs/ the table names the tests of its own folder or name that run it, and others that together run every branch of it
that any of those run, twice if there are as many: those first that run most of what the others before them do not, for their processor seconds
in tests/COST.md. Profiles stay below
BUILD_DIR/reach, and a test whose profile is newer than the program is not run again. Needs clang-16, llvm-16 and libomp-16-dev of Debian 12.
"""
import argparse
import collections
import concurrent.futures
import functools
import operator
import os
import pathlib
import re
import shutil
import subprocess

import changed_tests
import test_cost

SOURCE = pathlib.Path(__file__).resolve().parents[1]
HEAD = """# Which tests run a file: those of its own folder or name, and then others, those first that run most of what those before them do
# not, for their processor seconds. It is what `tools/test.sh --changed` goes by. Written by tools/test_reach.py, on request alone.
"""
OF_SOURCE = re.compile(r"[:/]((?:src|jobs)/.*)")  # the folder before it may be that of the build
FUNCTION = re.compile(r"^  (\S.*):\n    Hash: .*\n    Counters: .*\n    Function count: (\d+)\n(?:    Block counts: \[(.*)\]\n)?", re.M)


def llvm(tool, *words):
    return subprocess.run([f"llvm-{tool}-16", *map(str, words)], check=True, capture_output=True, text=True).stdout


def profile(test, build, folder):
    """The branches that a test runs, as a profile; runs the test if there is none newer than the program. Its ranks are its own, and every process
    counts in shared memory, so that those which are killed count as well."""
    profile = folder / f"{test['name']}.profdata"
    if profile.exists() and profile.stat().st_mtime > (build / "bin/sluice").stat().st_mtime:
        return profile
    raw = folder / test["name"]
    shutil.rmtree(raw, ignore_errors=True)
    raw.mkdir(parents=True)
    properties = test_cost.properties_of(test)
    environment = {**test_cost.environment_of(properties), "LLVM_PROFILE_FILE": f"{raw}/%c%m"}
    environment.pop("SLUICE_RUNNERS", None)
    with open(folder / f"{test['name']}.log", "wb") as log:
        status = subprocess.call(test["command"], env=environment, cwd=properties["WORKING_DIRECTORY"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    print(f"{test['name']}: exit code {status}", flush=True)
    raws = sorted(raw.iterdir())
    if raws:
        llvm("profdata", "merge", "-sparse", "-failure-mode=all", *raws, "-o", profile)
    shutil.rmtree(raw)
    return profile if raws else None


def branches(profile):
    """(function, number of a counter) of everything that was run."""
    for name, entered, blocks in FUNCTION.findall(llvm("profdata", "show", "--all-functions", "--counts", profile)):
        counts = [entered, *(blocks.split(", ") if blocks else [])]
        yield from ((name, number) for number, count in enumerate(counts) if count != "0")


def files_of_functions(build, profiles, folder):
    """The file of src/ or jobs/ that each function stands in."""
    merged = folder / "all.profdata"
    llvm("profdata", "merge", "-sparse", *profiles, "-o", merged)
    programs = [path for path in sorted((build / "bin").glob("**/*")) if path.is_file() and os.access(path, os.X_OK)]
    objects = [word for program in programs[1:] for word in ("-object", program)]
    files, file = {}, None
    for line in llvm("cov", "export", "-format=lcov", f"-instr-profile={merged}", programs[0], *objects).splitlines():
        if line.startswith("SF:"):
            found = OF_SOURCE.search(line)
            file = found[1] if found and (SOURCE / found[1]).exists() else None
        elif file and line.startswith("FN:"):
            files[line.partition(",")[2]] = file
    return files


def reached_branches(profiles, files):
    """Of each file, by test, the set of its branches that the test runs, as bits of a number."""
    reached = collections.defaultdict(lambda: collections.defaultdict(int))
    bits = collections.defaultdict(dict)  # of each file: branch -> number of its bit
    for name, profile in profiles.items():
        for branch in branches(profile):
            if file := files.get(branch[0]):
                reached[file][name] |= 1 << bits[file].setdefault(branch, len(bits[file]))
    return reached


def cover(reached, costs):
    """Names of tests that together run all branches that any in `reached` (test -> branches of one file) runs, in the order of what they add for
    their cost; takes them out of `reached`."""
    left, found = functools.reduce(operator.or_, reached.values(), 0), []
    while left:
        found.append(max(reached, key=lambda name: ((reached[name] & left).bit_count() / costs.get(name, 1.0), name)))
        left &= ~reached.pop(found[-1])
    return found


def chosen(file, reached, costs, folders):
    """Names of the tests of the file's own folder (`folders`: that of each test below tests/) and of those that bear the file's name, the cheapest
    first, and of others that together run all branches that any of those run, and of as many again; `reached`: test -> branches of `file`."""
    path = pathlib.PurePath(file)
    own = sorted((name for name in reached if folders[name] == path.parts[1] or path.stem in name), key=lambda name: costs.get(name, 1.0))
    others = {name: branches for name, branches in reached.items() if name not in own}
    return own + cover(others, costs) + cover(others, costs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("-o", "--output", type=pathlib.Path, default=SOURCE / "tests/reach.txt")
    parser.add_argument("-R", "--regex", default=".")
    parser.add_argument("-E", "--exclude", default="^$", help="tests that are not run, and which no file is then told to have")
    parser.add_argument("-j", "--parallel", type=int, default=len(os.sched_getaffinity(0)) + 1)
    arguments = parser.parse_args()
    folder = arguments.build / "reach"
    _, tests, _ = test_cost.by_fixture(test_cost.quick_tests(arguments.build, arguments.regex))
    tests = [test for test in tests if not re.search(arguments.exclude, test["name"])]
    with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
        profiles = dict(zip([test["name"] for test in tests], pool.map(lambda test: profile(test, arguments.build, folder), tests)))
    profiles = {name: found for name, found in profiles.items() if found}
    files = files_of_functions(arguments.build, profiles.values(), folder)
    costs = test_cost.known_seconds()
    folders = {name: folder for name, folder, _ in changed_tests.all_tests(arguments.build)}
    lines = [f"{file} {' '.join(chosen(file, by_test, costs, folders))}" for file, by_test in sorted(reached_branches(profiles, files).items())]
    arguments.output.write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
