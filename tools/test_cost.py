#!/usr/bin/env python3
"""Measures what each quick test of a build costs, and writes the table that CTest orders tests by.

    test_cost.py BUILD_DIR [-o tests/COST.md] [-R REGEX]

Of each test: processor seconds (user and system, of all its processes, and of shared ranks for its jobs), its share of the sum, and how often it launched ranks. Shares can be
compared between machines, seconds cannot. Without -o the table is compared with tests/COST.md, and the ten tests whose share grew most are
printed.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

SOURCE = pathlib.Path(__file__).resolve().parents[1]
TABLE = SOURCE / "tests/COST.md"
ROW = re.compile(r"\| (\S+) \| ([0-9.]+) \| ([0-9.]+) \| (\d+) \|")
HEAD = """# What each test costs

Written by `tools/test_cost.py BUILD_DIR -o tests/COST.md`, on request alone. Processor seconds are of all processes of a test on the machine
named below; the share, in percent of the sum, is what can be compared with another machine. CTest starts the tests with the largest share first.

"""


def quick_tests(build, pattern):
    """CTest's description of each quick test whose name has the pattern."""
    words = ["ctest", "--test-dir", build, "--show-only=json-v1", "-L", "^quick$", "-R", pattern]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["tests"]


def properties_of(test):
    return {item["name"]: item["value"] for item in test["properties"]}


def environment_of(properties):
    """Variables that a test runs with."""
    return {**os.environ, **dict(word.split("=", 1) for word in properties.get("ENVIRONMENT", []))}


def by_fixture(tests):
    """The tests that set up something for others, those others and all the rest, and those that remove it again."""
    parts = {"FIXTURES_SETUP": [], None: [], "FIXTURES_CLEANUP": []}
    for test in tests:
        names = {item["name"] for item in test["properties"]}
        parts[next((name for name in parts if name in names), None)].append(test)
    return parts.values()


def make_counting_launcher(directory):
    """An mpirun for PATH that adds a line to the file of SLUICE_LAUNCHES and becomes the real one."""
    launcher = pathlib.Path(directory) / "mpirun"
    launcher.write_text('#!/bin/sh\n[ "$1" = --version ] || echo >>"$SLUICE_LAUNCHES"\n' f'exec {shutil.which("mpirun")} "$@"\n')
    launcher.chmod(0o755)


class Costs:
    """Runs tests, several at a time; `rows`: (name, processor seconds, launches), `failed`: names."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.rows, self.failed, self.lock = [], [], threading.Lock()

    def run(self, test):
        properties = properties_of(test)
        runner_seconds = self.directory / f"{test['name']}.seconds"
        launches = self.directory / f"{test['name']}.launches"
        launches.touch()
        environment = {**environment_of(properties),
                       "PATH": f"{self.directory}:{os.environ['PATH']}", "SLUICE_LAUNCHES": str(launches),
                       "SLUICE_RUNNER_SECONDS": str(runner_seconds)}
        with open(self.directory / f"{test['name']}.log", "wb") as log:
            process = subprocess.Popen(test["command"], env=environment, cwd=properties["WORKING_DIRECTORY"], stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        count = launches.read_text().count("\n") + ("mpi" in pathlib.Path(test["command"][0]).name)
        seconds = usage.ru_utime + usage.ru_stime + (float(runner_seconds.read_text()) if runner_seconds.exists() else 0)
        with self.lock:
            self.rows.append((test["name"], seconds, count))
            if process.returncode != 0:
                self.failed.append(test["name"])
            print(f"{len(self.rows)} {test['name']}: {seconds:.1f} s, exit code {process.returncode}", flush=True)


def known_rows():
    return [match for match in map(ROW.match, TABLE.read_text().splitlines() if TABLE.exists() else []) if match]


def known_shares():
    return {row[1]: float(row[2]) for row in known_rows()}


def known_seconds():
    """Processor seconds of each test on the machine that tests/COST.md names; more than 0."""
    return {row[1]: max(0.1, float(row[3])) for row in known_rows()}


def processor():
    names = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else os.uname().machine}"


def table(rows, total):
    lines = [f"{total:.0f} processor seconds in {len(rows)} tests, {sum(row[2] for row in rows)} launches of ranks; {processor()}.", "",
             "| test | share, % | processor seconds | launches |", "| --- | --- | --- | --- |"]
    lines += [f"| {name} | {100 * seconds / total:.2f} | {seconds:.1f} | {launches} |" for name, seconds, launches in rows]
    return HEAD + "\n".join(lines) + "\n"


def tell_growth(rows, total):
    before = known_shares()
    grown = sorted(((100 * seconds / total - before.get(name, 0), name) for name, seconds, _ in rows), reverse=True)
    print("share of all processor seconds that grew most since tests/COST.md, in percentage points:")
    for growth, name in grown[:10]:
        print(f"  {growth:+.2f} {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("-R", "--regex", default=".")
    parser.add_argument("-j", "--parallel", type=int, default=len(os.sched_getaffinity(0)) + 1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        make_counting_launcher(directory)
        costs = Costs(directory)
        for part in by_fixture(quick_tests(arguments.build, arguments.regex)):
            with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
                list(pool.map(costs.run, part))
        for name in costs.failed:
            print(f"FAILED {name}:\n{(pathlib.Path(directory) / (name + '.log')).read_text(errors='replace')[-3000:]}")
    rows = sorted(costs.rows, key=lambda row: -row[1])
    total = sum(seconds for _, seconds, _ in rows)
    print(f"{total:.0f} processor seconds, {sum(row[2] for row in rows)} launches of ranks, {len(costs.failed)} failed")
    if arguments.output:
        arguments.output.write_text(table(rows, total))
    else:
        tell_growth(rows, total)
    raise SystemExit(1 if costs.failed else 0)


if __name__ == "__main__":
    main()
