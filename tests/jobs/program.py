"""Starting the program as a user does, with a limit on everything."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("SLUICE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
SLUICE = os.environ.get("SLUICE", str(SOURCE / "build/release/bin/sluice"))
FIXTURES = SOURCE / "tests/fixtures"
MPIRUN = SOURCE / "tools/mpirun.sh"


class Result:
    def __init__(self, status, output, seconds):
        self.status, self.output, self.seconds = status, output, seconds


def start(words):
    """A process whose stdout and stderr come together."""
    return subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace")


def finish(process, began, limit=120):
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"still running after {limit} s:\n{output}") from None
    return Result(process.returncode, output, time.monotonic() - began)


def run(*words, limit=120):
    began = time.monotonic()
    return finish(start(words), began, limit)


def sluice(*words, limit=60):
    return run(SLUICE, *words, limit=limit)


def mpirun(ranks, *words, limit=120):
    return run(MPIRUN, "-np", ranks, *words, limit=limit)


def per_rank(first, others):
    """Words that run `first` on rank 0 and `others` elsewhere; unlike `A : B` it works with every Open MPI 5."""
    script = 'case $OMPI_COMM_WORLD_RANK in 0) shift 0; exec "$SLUICE" run "$FIRST";; *) exec "$SLUICE" run "$OTHERS";; esac'
    os.environ.update(SLUICE=SLUICE, FIRST=str(first), OTHERS=str(others))
    return ["sh", "-c", script]


class JobTest(unittest.TestCase):
    """A test with a directory for its files."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-job-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def write_job(self, name="job.toml", **tables):
        """A job file; each keyword is a table of key=value. Its run directory is NAME without the ending."""
        tables.setdefault("job", {}).setdefault("output", str(self.directory / pathlib.Path(name).stem))
        lines = []
        for table, keys in tables.items():
            lines.append(f"[{table}]")
            lines += [f"{key} = {toml(value)}" for key, value in keys.items()]
        path = self.directory / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def output_of(self, job):
        return self.directory / job.stem

    def expect(self, result, status, *parts):
        self.assertEqual(result.status, status, result.output)
        for part in parts:
            self.assertIn(part, result.output)


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def reference_job(fixture, **changes):
    """The tables of the run that a fixture's reference.h5 describes."""
    directory = FIXTURES / fixture
    tables = {
        "model": {"path": directory, "dtype": "float32"},
        "data": {"tokens": directory / "reference.h5", "sequence_length": 48, "order": "sequential"},
        "train": {"steps": 8, "batch_sequences": 6, "micro_batch_sequences": 1, "aux_loss_coefficient": 0.0},
        "optimizer": {"learning_rate": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0},
        "debug": {"dump": "dump.h5"},
    }
    for table, keys in changes.items():
        tables.setdefault(table, {}).update(keys)
    return tables
