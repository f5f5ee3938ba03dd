"""Submitting jobs, and what is told of them while they wait, with stand-ins for Slurm's programs."""
import json
import os
import unittest

import program
from program import SLUICE, JobTest, reference_job

FIXTURE = "qwen3-moe-tiny"


class Submit(JobTest):
    def setUp(self):
        super().setUp()
        self.programs = self.directory / "programs"
        self.programs.mkdir()
        self.stand_in("sbatch", 'echo "$@" >> "$0.calls"; echo Submitted batch job 36')
        self.queue("echo PENDING")

    def stand_in(self, name, script):
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def queue(self, script):
        """What squeue does, which writes down what it was asked."""
        self.stand_in("squeue", f'echo "$@" >> "$0.calls"; {script}')

    def calls(self, name):
        record = self.programs / f"{name}.calls"
        return record.read_text().splitlines() if record.exists() else []

    def sluice(self, *words):
        return program.run("env", f"PATH={self.programs}:{os.environ['PATH']}", SLUICE, *words)

    def job(self, **changes):
        return self.write_job(**reference_job(FIXTURE, **changes))

    def states(self, *runs):
        result = self.sluice("status", "--json", *runs)
        self.expect(result, 0)
        return [(run["state"], run.get("slurm_job")) for run in json.loads(result.output)]

    def test_a_job_that_would_fail_is_not_submitted(self):
        job = self.job(data={"tokens": "none.h5"})
        self.expect(self.sluice("submit", job), 65, "none.h5", "--no-check")
        self.assertEqual(self.calls("sbatch"), [])
        self.expect(self.sluice("submit", "--no-check", job), 0, "batch job 36")
        self.assertEqual(len(self.calls("sbatch")), 1)

    def test_a_run_is_queued_until_it_begins(self):
        job = self.job()
        run = self.output_of(job)
        self.expect(self.sluice("submit", job, "--", "--nodes=1"), 0, "batch job 36")
        self.assertEqual(self.calls("sbatch"), [f"--nodes=1 {run}/submit.sbatch"])
        self.assertEqual(self.states(run), [("queued", "36")])
        self.assertIn("--jobs=36", self.calls("squeue")[0])
        self.queue("echo RUNNING")
        self.assertEqual(self.states(run), [("started", "36")])
        self.queue("echo slurm_load_jobs error: Invalid job id specified; exit 1")
        self.assertEqual(self.states(run), [("gone", "36")])
        self.queue("echo connection refused; exit 1")
        self.assertEqual(self.states(run), [("submitted", "36")])
        # An earlier ending: it holds again as soon as the job is gone.
        (run / "status.json").write_text(json.dumps({"state": "saved", "exit_code": 75, "updated": "2026-01-01T00:00:00Z"}))
        self.assertEqual(self.states(run), [("submitted", "36")])
        self.queue("true")
        self.assertEqual(self.states(run), [("saved", None)])

    def test_each_task_of_an_array_waits_under_its_own_name(self):
        task = "${SLURM_ARRAY_TASK_ID}"
        job = self.job(job={"output": f"{self.directory}/seed-{task}"}, data={"order": "shuffle", "seed": task})
        rate = f"optimizer.learning_rate={task}e-4"
        self.expect(self.sluice("submit", job, "--set", rate, "--", "--array=1-2%1", "--nodes=1"), 0)
        script = (self.directory / "seed-array/submit.sbatch").read_text()
        self.assertIn(f"'{rate}'", script)
        self.assertIn(f"--output='{self.directory}/seed-%a-%A_%a.out'", script)
        log = self.directory / "seed-1-36_1.out"
        log.write_text("")
        runs = sorted(self.directory.glob("seed-*"))
        self.assertEqual(self.states(*runs), [("queued", "36_1"), ("queued", "36_2")])
        self.expect(self.sluice("status", *runs), 0, "no run directories: ", str(log), "seed-array")

    def test_what_is_no_run_is_refused_where_there_is_no_other(self):
        log = self.directory / "run-36.out"
        log.write_text("")
        self.expect(self.sluice("status", log), 65, str(log))
        (self.directory / "run").mkdir()
        (self.directory / "run/status.json").write_text(json.dumps({"state": "done", "exit_code": 0}))
        self.expect(self.sluice("status", self.directory / "run", self.directory / "none"), 65, "none")


if __name__ == "__main__":
    unittest.main(verbosity=2)
