"""What is told of runs: status of running and ended ones, and their metrics as one file."""
import json
import unittest

import h5py

import program
from program import sluice, with_fault
from saving import STEPS, SavingTest


class Status(SavingTest):
    def status(self, *jobs):
        result = sluice("status", "--json", *(self.output_of(job) for job in jobs))
        self.expect(result, 0)
        return json.loads(result.output)

    def test_of_ended_runs(self):
        done, killed = self.job("done.toml", train={"steps": 3}), self.job("killed.toml")
        self.run_job(done, 1)
        # The second save waits for the first one, so that is on the disk for certain, and the second is not.
        self.assertNotEqual(program.mpirun(1, *self.stop_at(4), "run", killed).status, 0)
        first, second = self.status(done, killed)
        self.assertEqual((first["state"], first["step"], first["steps"], first["saved_step"]), ("done", 3, 3, 3))
        self.assertEqual(first["loss"], self.losses(done)[3])
        self.assertEqual(second["state"], "killed")
        self.assertEqual((second["steps"], second["saved_step"]), (STEPS, 2))
        self.assertIn(" I step 3/3 ", (self.output_of(done) / "logs/rank-00000.log").read_text())
        result = sluice("status", self.output_of(done), self.output_of(killed))
        self.expect(result, 0, "tokens/s", "3/3", "step 3, 20", "killed")

    def test_of_a_running_one(self):
        job = self.job()
        running = program.start_mpirun(1, *with_fault("train.step", 0, "2+", "delay"), "run", job)
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 1/" in running.output(), "a step")
        (status,) = self.status(job)
        self.assertEqual((status["state"], status["step"], status["steps"]), ("training", 1, STEPS))

    def test_of_no_run(self):
        self.expect(sluice("status", self.directory), 65, "a run directory")


class Metrics(SavingTest):
    def test_segments_become_one_file(self):
        whole, cut, _ = self.whole_and_cut(5)
        self.run_job(cut, 2)
        merged = self.directory / "merged.h5"
        self.expect(sluice("metrics", "merge", self.output_of(cut), "-o", merged), 0, "2 files")
        with h5py.File(merged) as file:
            self.assertEqual(file["train/step"][:].tolist(), list(range(1, STEPS + 1)))
            self.assertEqual(file.attrs["rows"], STEPS)
            self.assertEqual(file["memory/peak_bytes"].shape, (STEPS, 3))
            self.assertEqual(file["memory/peak_bytes"][-1, 2], -1)  # two ranks
            for step, loss in self.losses(whole).items():
                self.assertAlmostEqual(file["train/loss"][step - 1], loss, delta=1e-4)
        self.expect(sluice("metrics", "merge", self.output_of(cut), "-o", merged), 74, "exists already")
        self.expect(sluice("metrics", "merge", self.directory / "none", "-o", merged), 65, "no such file")

    def test_readers_of_a_file_that_grows_are_told_how_many_rows_hold(self):
        job = self.job()
        running = program.start_mpirun(1, *with_fault("train.step", 0, "4+", "delay"), "run", job)
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 3/" in running.output(), "three steps")
        with h5py.File(self.output_of(job) / "metrics.h5") as file:
            rows = file.attrs["rows"]
            self.assertEqual(rows, 3)
            self.assertEqual(file["train/step"][:rows].tolist(), [1, 2, 3])
            self.assertTrue((file["train/loss"][:rows] > 0).all())


if __name__ == "__main__":
    unittest.main(verbosity=2)
