"""Jobs of test programs in ranks that stay up, where a job's own process is not what is tested.

A job runs as `sluice run` would run it, with the same exit code and output; only what is about processes differs: memory
that an earlier job used is there already, and signals, limits and environment are the runner's.

Runners lie in the folder that SLUICE_RUNNERS names, a folder each, and are handed from one test program to the next by a lock on a file in
theirs; without it a program has a folder of its own for as long as it lives. `suite.py end FOLDER` ends those that are there.
"""
import atexit
import fcntl
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import program

USUAL_RANKS = 3
# Starts ranks, whose answers and whose end a FIFO takes that never lacks a reader: FOLDER COMMAND...
KEEPER = ('folder=$1; shift; exec 1<>"$folder/answers" 2>"$folder/launcher.txt"; echo $$ >"$folder/session"; "$@"; code=$?; times >"$folder/times"; '
          'touch "$folder/ended"; echo "ended $code"')
OF_ONE_TEST = ("SLUICE_LAUNCHES", "SLUICE_RUNNER_SECONDS")  # variables that do not matter to ranks
TICKS = os.sysconf("SC_CLK_TCK")


def runner_program():
    """The one beside the program; its name tells it from those of other builds."""
    runner, = pathlib.Path(program.SLUICE).parent.glob("sluice*suite-runner")
    return str(runner)


def kind(ranks):
    """What runners must have in common to stand in for each other: processes that a test starts would have just that."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_ONE_TEST}
    parts = [runner_program(), ranks, os.getcwd(), os.readlink("/proc/self/ns/mnt"), sorted(environment.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


class SuiteRunner:
    """Ranks that run the jobs they are handed, one after the other (tests/support/suite_runner.cpp); locked while it lives here."""

    def __init__(self, folder, ranks):
        """Makes the folder and starts its ranks, or takes over what runs there. Raises BlockingIOError if another program has it, and
        FileNotFoundError if another program has just removed it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.ranks, self.jobs = folder, ranks, 0
        self.lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(folder / "lock").st_ino != os.fstat(self.lock).st_ino:
                raise FileNotFoundError(folder)
            is_new = not (folder / "answers").exists()
            for name in [*map(str, range(ranks)), "answers"] if is_new else []:
                os.mkfifo(folder / name)
            # Open for both ends: nothing waits for another process to open one.
            self.requests = [os.open(folder / str(rank), os.O_RDWR | os.O_CLOEXEC) for rank in range(ranks)]
            self.answers = os.open(folder / "answers", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            os.close(self.lock)
            raise
        self.unread = b""
        self.seconds_before = 0 if is_new else self.processor_seconds()
        if is_new:
            words = ["sh", "-c", KEEPER, "sh", folder, program.MPIRUN, "-np", ranks, runner_program(), folder]
            subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)

    def _answer(self, limit):
        """The next line of answers in words, or None behind `limit` seconds."""
        deadline = time.monotonic() + limit
        while b"\n" not in self.unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                return None
            self.unread += os.read(self.answers, 65536)
        line, self.unread = self.unread.split(b"\n", 1)
        return line.decode(errors="replace").split()

    def _send(self, ranks, request):
        for requests in self.requests[:ranks]:
            os.write(requests, json.dumps(request).encode() + b"\n")

    def run(self, ranks, job, overrides, faults, limit):
        self.jobs += 1
        output = self.folder / f"output-{os.getpid()}-{self.jobs}.txt"
        began = time.monotonic()
        self._send(ranks, {"ranks": ranks, "job": str(job), "overrides": overrides, "faults": faults, "run": run_directory(job),
                           "output": str(output)})
        while (answer := self._answer(limit)) is not None and answer[:1] not in (["done"], ["ended"]):
            pass
        text = read(output)
        if answer is None:
            self.kill()
            raise AssertionError(f"still running after {limit} s:\n{text}")
        if answer[0] == "ended":  # by the job
            text += read(self.folder / "launcher.txt")
        output.unlink(missing_ok=True)
        ended = time.monotonic()
        return program.Result(int(answer[1]), [(ended, line) for line in text.splitlines(keepends=True)], began, ended)

    def has_ended(self):
        return (self.folder / "ended").exists()

    def processor_seconds(self):
        """Seconds that its processes have computed so far, those that have ended among them; 0 if they were killed."""
        if (self.folder / "times").exists():
            parts = re.findall(r"(\d+)m([\d.]+)s", (self.folder / "times").read_text())
            return sum(60 * int(minutes) + float(seconds) for minutes, seconds in parts)
        session, seconds = read(self.folder / "session").strip(), 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()  # from the state on: proc(5)
                seconds += sum(map(int, fields[11:15])) / TICKS if fields[3] == session else 0
            except OSError:
                pass  # ended meanwhile
        return seconds

    def kill(self):
        """Ends ranks that no longer listen: every process of the session that the runner's folder names."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder) in (process / "cmdline").read_text(errors="replace").split("\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                pass  # ended by itself
        (self.folder / "ended").touch()

    def end(self):
        """Ends its ranks, waits for that, and removes the folder."""
        if not self.has_ended():
            self._send(self.ranks, {"end": True})
            while (answer := self._answer(program.LIMIT_SECONDS)) is not None and answer[:1] != ["ended"]:
                pass
            if answer is None:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)  # before the lock is free, so that nobody takes what is removed
        self.let_go()

    def let_go(self):
        """Leaves its ranks to the next program."""
        for descriptor in [*self.requests, self.answers, self.lock]:
            os.close(descriptor)


class Runners:
    """The folder of runners of this program's jobs, and those that it has taken, by their kind."""

    def __init__(self):
        named = os.environ.get("SLUICE_RUNNERS")
        self.is_shared = named is not None and (pathlib.Path(named) / "namespace").exists() and \
            (pathlib.Path(named) / "namespace").read_text() == os.readlink("/proc/self/ns/mnt")
        self.folder = pathlib.Path(named if self.is_shared else tempfile.mkdtemp(prefix="sluice-suite-"))
        self.taken = {}
        self.seconds = 0  # of processor time, of runners that have ended

    def usual(self):
        runner = self.taken.get(kind(USUAL_RANKS))
        return None if runner is None or runner.has_ended() else runner

    def of(self, ranks):
        """A runner of so many ranks: this program's, a free one, or a new one."""
        number, name = 0, kind(ranks)
        if name in self.taken and self.taken[name].has_ended():
            self._count(self.taken[name])
            self.taken.pop(name).end()
        while name not in self.taken:
            try:
                runner = SuiteRunner(self.folder / f"{name}-{number}", ranks)
                if runner.has_ended():
                    runner.end()  # and in the next round its place is free
                else:
                    self.taken[name] = runner
            except BlockingIOError:
                number += 1
            except FileNotFoundError:
                pass  # removed by the program that had it: its place is free
        return self.taken[name]

    def _count(self, runner):
        self.seconds += max(0, runner.processor_seconds() - runner.seconds_before)

    def leave(self):
        """Gives its runners back. What they have computed for this program goes to the file that SLUICE_RUNNER_SECONDS names."""
        for runner in self.taken.values():
            self._count(runner)
            runner.let_go() if self.is_shared and not runner.has_ended() else runner.end()
        if file := os.environ.get("SLUICE_RUNNER_SECONDS"):
            pathlib.Path(file).write_text(str(self.seconds))
        if not self.is_shared:
            shutil.rmtree(self.folder, ignore_errors=True)


def begin(folder):
    """Makes the folder that SLUICE_RUNNERS names for the programs of one run of the tests."""
    end(folder)
    folder.mkdir(parents=True)
    (folder / "namespace").write_text(os.readlink("/proc/self/ns/mnt"))


def end(folder):
    for runner in folder.glob("*-*"):
        try:
            SuiteRunner(runner, len(list(runner.glob("[0-9]")))).end()
        except OSError as error:
            print(f"{runner}: {error}")
    shutil.rmtree(folder, ignore_errors=True)


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


_runners = None


def runners():
    global _runners
    if _runners is None:
        _runners = Runners()
        atexit.register(_runners.leave)
    return _runners


def usual_runner():
    """The runner of jobs of up to three ranks, if this program has one that has not ended."""
    return runners().usual()


def run_job(ranks, job, *options, fault="", limit=program.LIMIT_SECONDS):
    """What `mpirun -np RANKS sluice run JOB OPTIONS...` gives, with a program.fault() if one is named, in ranks that this program's
    jobs share; in ranks of its own where the job limits the memory of its process, of which earlier jobs would have taken a
    part."""
    if any("memory.limit" in str(option) for option in options) or "limit" in settings(job).get("memory", {}):
        start = program.with_faults(fault, run_directory(job)) if fault else [program.SLUICE]
        return program.mpirun(ranks, *start, "run", job, *options, limit=limit)
    words = [str(option) for option in options]
    if words[::2] != ["--set"] * (len(words) // 2) or len(words) % 2:
        raise ValueError(f"only --set KEY=VALUE is known here: {words}")
    return runners().of(max(ranks, USUAL_RANKS)).run(ranks, job, words[1::2], fault, limit)


if __name__ == "__main__":
    {"begin": begin, "end": end}[sys.argv[1]](pathlib.Path(sys.argv[2]))
