"""Jobs of one test program in one launch of ranks, where a job's own process is not what is tested.

A job runs as `sluice run` would run it, with the same exit code and output; only what is about processes differs: memory
that an earlier job used is there already, and signals, limits and environment are the runner's.
"""
import atexit
import json
import os
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading
import time
import tomllib

import program

USUAL_RANKS = 3


def runner_program():
    """The one beside the program; its name tells it from those of other builds."""
    runner, = pathlib.Path(program.SLUICE).parent.glob("sluice*suite-runner")
    return str(runner)


class SuiteRunner:
    """Ranks that run the jobs they are handed, one after the other (tests/support/suite_runner.cpp)."""

    def __init__(self, ranks):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-suite-"))
        fifos = [self.directory / str(rank) for rank in range(ranks)]
        for fifo in fifos:
            os.mkfifo(fifo)
        # Open for both ends: writing needs no reader yet, and ranks see the end of the FIFO when this process ends.
        self.requests = [os.open(fifo, os.O_RDWR | os.O_CLOEXEC) for fifo in fifos]
        self.errors = open(self.directory / "launcher.txt", "w+")
        self.process = subprocess.Popen([str(program.MPIRUN), "-np", str(ranks), runner_program(), str(self.directory)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.answers = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.jobs = 0

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("done "):
                self.answers.put(int(line.split()[1]))
        self.answers.put(None)

    def run(self, ranks, job, overrides, faults, limit):
        self.jobs += 1
        output = self.directory / f"output-{self.jobs}.txt"
        request = json.dumps({"ranks": ranks, "job": str(job), "overrides": overrides, "faults": faults,
                              "run": run_directory(job), "output": str(output)})
        began = time.monotonic()
        for requests in self.requests[:ranks]:
            os.write(requests, request.encode() + b"\n")
        try:
            status = self.answers.get(timeout=limit)
        except queue.Empty:
            self.stop()
            raise AssertionError(f"still running after {limit} s:\n{read(output)}") from None
        text = read(output)
        if status is None:  # the job has ended the runner
            status = self.process.wait(program.LIMIT_SECONDS)
            self.errors.flush()
            text += read(self.directory / "launcher.txt")
            self.stop()
        ended = time.monotonic()
        return program.Result(status, [(ended, line) for line in text.splitlines(keepends=True)], began, ended)

    def ended(self):
        return self.process.poll() is not None

    def stop(self):
        for requests in self.requests:
            os.close(requests)
        self.requests = []
        try:
            self.process.wait(program.LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(program.LIMIT_SECONDS)
        self.errors.close()
        self.process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def read(file):
    return file.read_text(errors="replace") if file.exists() else ""


def settings(job):
    """The tables of a job file; none of one that cannot be read, which the job itself will tell."""
    try:
        return tomllib.loads(pathlib.Path(job).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def run_directory(job):
    return settings(job).get("job", {}).get("output", "")


_runners = {}


def usual_runner():
    """The runner of jobs of up to three ranks, if it has been started and has not ended."""
    runner = _runners.get(USUAL_RANKS)
    return None if runner is None or runner.ended() else runner


def run_job(ranks, job, *options, fault="", limit=program.LIMIT_SECONDS):
    """What `mpirun -np RANKS sluice run JOB OPTIONS...` gives, with a program.fault() if one is named, in ranks that this program's
    jobs share; in ranks of its own where the job limits the memory of its process, of which earlier jobs would have taken a
    part."""
    if any("memory.limit" in str(option) for option in options) or "limit" in settings(job).get("memory", {}):
        start = program.with_faults(fault, run_directory(job)) if fault else [program.SLUICE]
        return program.mpirun(ranks, *start, "run", job, *options, limit=limit)
    size = max(ranks, USUAL_RANKS)
    if size not in _runners or _runners[size].ended():
        _runners[size] = SuiteRunner(size)
    words = [str(option) for option in options]
    if words[::2] != ["--set"] * (len(words) // 2) or len(words) % 2:
        raise ValueError(f"only --set KEY=VALUE is known here: {words}")
    return _runners[size].run(ranks, job, words[1::2], fault, limit)


@atexit.register
def _stop_runners():
    for runner in _runners.values():
        if not runner.ended():
            runner.stop()
