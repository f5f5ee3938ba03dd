"""Jobs that end before they are done: signals before the first step, and the end of an allocation."""
import json
import signal
import time
import unittest

import program
from program import MPIRUN, SLUICE, with_fault
from saving import SavingTest


class BeforeTheFirstStep(SavingTest):
    """A signal ends the job at once: there is nothing new to save."""

    def end_by(self, job, number):
        running = program.start_mpirun(3, *with_fault("job.baseline", "*", 1, "delay"), "run", job)
        self.addCleanup(running.stop)
        program.wait_until(lambda: running.output().count("injected fault") == 3, "all ranks")
        running.process.send_signal(number)
        return running.finish()

    def status(self, job):
        return json.loads((self.output_of(job) / "status.json").read_text())

    def test_of_a_run_that_was_resumed_all_is_saved(self):
        job = self.job(train={"steps": 2})
        self.run_job(job)
        result = self.end_by(job, signal.SIGUSR1)
        self.expect(result, 75, "SIGUSR1")
        self.assertLess(result.seconds_after("injected fault"), program.GUARD_SECONDS, result.output)
        status = self.status(job)
        self.assertEqual((status["state"], status["exit_code"], status["id"]), ("saved", 75, "job.signal"))
        self.expect_resumed(self.run_job(job, arguments=["--set", "train.steps=3"]), 2, "step 3/3")

    def test_of_a_new_run_nothing_is_saved(self):
        job = self.job()
        self.assertEqual(self.end_by(job, signal.SIGUSR1).status, 128 + signal.SIGUSR1)
        self.assertEqual(self.status(job)["state"], "failed")
        self.run_job(job, arguments=["--set", "train.steps=1"])


class EndOfTheAllocation(SavingTest):
    def run_with(self, seconds, **checkpoint):
        job = self.job(checkpoint={"every_steps": 0, "margin_seconds": 60} | checkpoint)
        end = int(time.time() + seconds)
        return job, program.run("env", "-u", "SLURM_JOB_ID", f"SLURM_JOB_END_TIME={end}", MPIRUN, "-np", 2, SLUICE, "run", job)

    def test_is_met_by_a_save_in_time(self):
        job, result = self.run_with(50)
        self.expect(result, 75, "ended ", "the allocation", "after step 1")
        self.assertEqual(self.steps(job), [1])

    def test_is_no_matter_while_it_is_far_or_not_asked_for(self):
        for seconds, margin in ((7200, 60), (50, 0)):
            job, result = self.run_with(seconds, margin_seconds=margin, path=str(self.directory / f"steps-{margin}"))
            self.expect(result, 0)
            program.run("rm", "-r", self.output_of(job))


if __name__ == "__main__":
    unittest.main(verbosity=2)
