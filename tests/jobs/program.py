"""Starting the program as a user does, with a limit on everything."""
import contextlib
import io
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import h5py

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from load_tool import load_tool  # noqa: E402

COMPARE_REFERENCE = load_tool("compare_reference")

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # ignored by whoever runs tests under nohup, or behind a shell's &
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
SOURCE = pathlib.Path(os.environ.get("SLUICE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
SLUICE = os.environ.get("SLUICE", str(SOURCE / "build/release/bin/sluice"))
SLUICE_WITH_FAULTS = str(pathlib.Path(SLUICE).parent / "faults/sluice")  # of the same objects, with a hook at its fault points
FIXTURES = SOURCE / "tests/fixtures"
MPIRUN = SOURCE / "tools/mpirun.sh"
LIMIT_SECONDS = 300  # until a test gives up on what should have come long ago, on a machine however busy


class Result:
    """How a program ended: `lines` are what it wrote, with the moment of each."""

    def __init__(self, status, lines, began, ended):
        self.status, self.lines, self.ended = status, lines, ended
        self.seconds = ended - began
        self.output = "".join(text for _, text in lines)

    def seconds_after(self, part):
        """From the first line with `part` to the end."""
        moments = [moment for moment, text in self.lines if part in text]
        if not moments:
            raise AssertionError(f"no '{part}' in:\n{self.output}")
        return self.ended - moments[0]


class Program:
    """A started program whose stdout and stderr come together; `lines` grows while it runs."""

    def __init__(self, words):
        self.lines = []
        self.began = time.monotonic()
        self.process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, errors="replace")
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        with self.process.stdout as stream:
            for line in stream:
                self.lines.append((time.monotonic(), line))

    def output(self):
        return "".join(text for _, text in self.lines)

    def finish(self, limit=LIMIT_SECONDS):
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(f"still running after {limit} s:\n{self.output()}") from None
        ended = time.monotonic()
        self.reader.join()
        return Result(self.process.returncode, self.lines, self.began, ended)

    def stop(self):
        """mpirun takes its ranks along, which a SIGKILL would not let it do."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.wait()
        self.reader.join()


def wait_until(is_true, what, limit=LIMIT_SECONDS):
    deadline = time.monotonic() + limit
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit} s for {what}")
        time.sleep(0.05)


def run(*words, limit=LIMIT_SECONDS):
    return Program(words).finish(limit)


def sluice(*words, limit=LIMIT_SECONDS):
    return run(SLUICE, *words, limit=limit)


def mpirun(ranks, *words, limit=LIMIT_SECONDS):
    return run(MPIRUN, "-np", ranks, *words, limit=limit)


def start_mpirun(ranks, *words):
    return Program([MPIRUN, "-np", ranks, *words])


def per_rank(first, others):
    """Words that run the command `first` on rank 0 and `others` elsewhere; unlike `A : B` every Open MPI 5 can do it."""
    first, others = (shlex.join(str(word) for word in words) for words in (first, others))
    return ["sh", "-c", f"case $OMPI_COMM_WORLD_RANK in 0) exec {first} ;; *) exec {others} ;; esac"]


def fault(site, rank, nth, action):
    """The nth pass of that rank through the site fails, or with "3+" the third and all later ones (tests/support/fault_injection.cpp)."""
    return f"{site}:{rank}:{nth}:{action}"


def with_fault(*place_and_action):
    """Words that start the program with that fault()."""
    return with_faults(fault(*place_and_action))


def with_faults(faults, run=""):
    """Words that start the program with each fault() of a text joined by commas; `run`: the run directory that some copy."""
    return ["env", f"SLUICE_FAULT={faults}", f"SLUICE_FAULT_RUN={run}", SLUICE_WITH_FAULTS]


def limit_that_just_does(refused_bytes, output):
    """A memory.limit that only offloading meets, from what the refusal of a smaller one says. A plan may fill nine
    tenths of what a limit leaves."""
    needed, lacking = told_by_refusal(output)
    return f"{refused_bytes + int(lacking + needed / 9) + 1_000_000}B"


def told_by_refusal(output):
    """Bytes that a rank needs beside its program, and those that a memory.limit lacks, from what its refusal says."""
    return (float(re.search(number, output)[1]) * 1e6 for number in [r"must hold ([0-9.]+) MB", r"([0-9.]+) MB too little"])


def program_bytes(refused_bytes, output):
    """Bytes of a memory.limit that the program of a rank takes before it sees a model, from what a refusal says."""
    needed, lacking = told_by_refusal(output)
    return refused_bytes + int(lacking - needed)


# How many times as long a build with a sanitizer takes, at most.
SLOWDOWN = float(os.environ.get("SLUICE_SLOWDOWN", 1))


# A guard against hanging, in seconds of wall time: five times the 10 s in which a job ends after a failure, and a launch
# (2 s on an idle machine) as slow again. Deadlines that fail to work would end a job after two minutes at the earliest.
GUARD_SECONDS = 60


def processor_seconds():
    """Seconds of processor time of all programs that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def open_mpi_version():
    """Its major version, or None for another MPI."""
    found = re.search(r"\(Open MPI\) (\d+)", run(os.environ.get("MPIRUN", "mpirun"), "--version").output)
    return found and int(found.group(1))


class JobTest(unittest.TestCase):
    """A test with a directory for its files."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-job-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def write_job(self, name="job.toml", **tables):
        """A job file; each keyword is a table of key=value. Its run directory is NAME without the ending."""
        tables.setdefault("job", {}).setdefault("output", str(self.directory / pathlib.Path(name).stem))
        path = self.directory / name
        path.write_text(job_text(tables))
        return path

    def memory_on_disk(self):
        """[memory] of a job of three ranks on qwen3-moe-tiny that must keep experts' state on a disk. What the program takes beside
        it differs from one LibTorch to another."""
        memory = {"offload": "disk", "limit": "100MiB"}
        job = self.write_job("refused.toml", **reference_job("qwen3-moe-tiny", model={"dtype": "bfloat16"},
                                                             optimizer={"gradients": "release"}, memory=memory))
        refused = mpirun(3, SLUICE, "run", job)
        self.expect(refused, 71)
        return memory | {"limit": limit_that_just_does(100 << 20, refused.output)}

    def output_of(self, job):
        return self.directory / job.stem

    def expect(self, result, status, *parts):
        self.assertEqual(result.status, status, result.output)
        for part in parts:
            self.assertIn(part, result.output)

    def expect_resumed(self, result, step, *parts):
        """It went on from the checkpoint of `step`, to its end."""
        self.expect(result, 0, f"resume    from step {step}", *parts)

    def expect_reference(self, output, directory, bfloat16=False):
        """The run's dump and metrics hold the numbers of reference.h5 in `directory`, as tools/compare_reference says."""
        report = io.StringIO()
        with contextlib.redirect_stdout(report):
            is_close = COMPARE_REFERENCE.compare(output, directory, bfloat16)
        self.assertTrue(is_close, report.getvalue())

    def expect_once(self, result, part):
        self.assertEqual(result.output.count(part), 1, result.output)

    def expect_planned_bytes(self, output):
        """Ranks sent in the last step what was planned."""
        counted, planned = sent_bytes(output)
        self.assertAlmostEqual(counted / (planned["all"] - planned["batch"]), 1, delta=0.02)

    def expect_named_when_killed(self, ranks, job, site, rank, turn):
        """A rank that is killed there ends the job, which names how it ended, within the guard's time."""
        result = mpirun(ranks, *with_fault(site, rank, turn, "kill"), "run", job)
        self.assertNotEqual(result.status, 0)
        self.assertLess(result.seconds_after("injected fault"), GUARD_SECONDS, result.output)
        self.assertIn("signal 9", result.output)

    def write_prompts(self):
        path = self.directory / "prompts.jsonl"
        path.write_text("".join(json.dumps({"id": i, "tokens": [5 + i, 9, 17]}) + "\n" for i in range(5)))
        return path

    def write_documents(self, fixture):
        """The tokens of a fixture's reference as some documents."""
        path = self.directory / "documents.h5"
        with h5py.File(FIXTURES / fixture / "reference.h5") as reference, h5py.File(path, "w") as file:
            file["tokens"] = reference["tokens"][:].reshape(-1).astype("int32")
            file["document_starts"] = [0, 30, 61, 100, 140, 180, 220, 260]
        return path

    def expect_prompt(self, result):
        """A job that fails while it starts ends by itself, and soon."""
        self.assertLess(result.seconds, GUARD_SECONDS, result.output)


def sent_bytes(run):
    """Bytes that all ranks sent in the last step, and those that were planned by purpose."""
    with h5py.File(run / "metrics.h5") as metrics:
        counted = int(metrics["train/communicated_bytes"][-1])
    ranks = json.loads((run / "plan.json").read_text())["ranks"]
    return counted, {purpose: sum(rank["sent_bytes"][purpose] for rank in ranks) for purpose in ranks[0]["sent_bytes"]}


def answers(run):
    """{id: tokens} of the answers of a run."""
    lines = [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]
    return {line["id"]: line["tokens"] for line in lines}


def losses(run):
    """{step: loss} of all files of a run's metrics, of which a later one counts."""
    found = {}
    for file in sorted(run.glob("metrics*.h5"), key=lambda file: (len(file.name), file.name)):
        with h5py.File(file) as metrics:
            rows = int(metrics.attrs["rows"])
            found.update(zip(metrics["train/step"][:rows].tolist(), metrics["train/loss"][:rows].tolist()))
    return found


def job_text(tables):
    """A job file; each table is one of key=value."""
    lines = []
    for table, keys in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {toml(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def reference_job(fixture, **changes):
    """The tables of the run that a fixture's reference.h5 describes."""
    directory = FIXTURES / fixture
    with h5py.File(directory / "reference.h5") as reference:
        learning_rate = float(reference["train"].attrs["lr"])
    tables = {
        "model": {"path": directory, "dtype": "float32"},
        "data": {"tokens": directory / "reference.h5", "sequence_length": 48, "order": "sequential"},
        "train": {"steps": 8, "batch_sequences": 6, "micro_batch_sequences": 1, "aux_loss_coefficient": 0.0},
        "optimizer": {"learning_rate": learning_rate, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0},
        "debug": {"dump": "dump.h5"},
    }
    for table, keys in changes.items():
        tables.setdefault(table, {}).update(keys)
    return tables
