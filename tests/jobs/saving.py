"""Jobs whose training state is saved, and what they leave."""
import pathlib
import shutil
import tempfile

import h5py
from program import JobTest, SLUICE, fault, mpirun, reference_job, with_fault
from suite import run_job

FIXTURE = "qwen3-moe-tiny"
STEPS = 8


class SavingTest(JobTest):
    SHARES_RANKS = True  # whether jobs of the shipped program may run one after the other in the same processes

    def job(self, name="job.toml", **changes):
        defaults = {"debug": {"dump": ""}, "checkpoint": {"every_steps": 2, "keep": 10}, "train": {"steps": STEPS},
                    "optimizer": {"eps": 1e-3}}
        for table, keys in changes.items():
            defaults[table] = defaults.get(table, {}) | keys
        return self.write_job(name, **reference_job(FIXTURE, **defaults))

    def run_job(self, job, ranks=3, arguments=(), start=(SLUICE,), status=0, fault=""):
        in_suite = self.SHARES_RANKS and start == (SLUICE,)
        result = run_job(ranks, job, *arguments, fault=fault) if in_suite else mpirun(ranks, *start, "run", job, *arguments)
        self.assertEqual(result.status, status, result.output)
        return result

    def stop_at(self, step):
        """Words that end a run after that step as the scheduler does, as far as the run can tell."""
        return with_fault("train.step", "*", step + 1, "kill")

    def whole_and_cut(self, step, ranks=3, make=None, **changes):
        """A run that nothing has ended, the job of a copy of it as it lay behind that step, which is what a kill would have left, and
        how the run ended. `make`: what makes a job of a file's name, in place of job()."""
        make = make or self.job
        whole = make("whole.toml", **changes)
        result = self.run_job(whole, ranks, fault=fault("train.step", 0, step + 1, "copy"))
        return whole, make(f"whole-train.step-0-{step + 1}.toml", **changes), result

    def checkpoints(self, job):
        return self.output_of(job) / "checkpoints"

    def step(self, job, number):
        return self.checkpoints(job) / f"step-{number:08}"

    def steps(self, job):
        return sorted(int(path.name.removeprefix("step-")) for path in self.checkpoints(job).glob("step-*"))

    def losses(self, job):
        """Of the run, its segments joined."""
        found = {}
        for path in sorted(self.output_of(job).glob("metrics*.h5"), key=lambda path: (len(path.name), path.name)):
            with h5py.File(path) as file:
                steps, losses = file["train/step"][:], file["train/loss"][:]
            found = {step: loss for step, loss in found.items() if not len(steps) or step < steps[0]}
            found |= dict(zip(steps.tolist(), losses.tolist()))
        return found

    def expect_same_files(self, one, other):
        for path in sorted(one.glob("*.safetensors")):
            self.assertEqual(path.read_bytes(), (other / path.name).read_bytes(), path.name)

    def whole(self, **changes):
        """A run that nothing has ended."""
        job = self.job("whole.toml", **changes)
        self.run_job(job)
        return job


class SavedTest(SavingTest):
    """Each test has a copy of one run of CHANGES, that of `self.saved`."""

    CHANGES = {}
    original = None

    def setUp(self):
        super().setUp()
        self.saved = self.job(**self.CHANGES)
        if not self.original:
            self.run_job(self.saved)
            type(self).original = pathlib.Path(tempfile.mkdtemp(prefix="sluice-saved-"))
            self.addClassCleanup(shutil.rmtree, self.original, ignore_errors=True)
            shutil.copytree(self.output_of(self.saved), self.original, dirs_exist_ok=True)
        else:
            shutil.copytree(self.original, self.output_of(self.saved))
