"""A job sees nothing of those that ran before it in the same processes."""
import json
import unittest

import h5py
import numpy

import suite
from program import FIXTURES, JobTest, reference_job
from suite import run_job


def numbers(path):
    """Every dataset of an HDF5 file."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


class Suite(JobTest):
    def train(self, name, **changes):
        job = self.write_job(name, **reference_job("qwen3-moe-tiny", **changes))
        self.expect(run_job(3, job), 0)
        return self.output_of(job)

    def test_the_same_job_first_and_last_gives_the_same_bits(self):
        first = self.train("first.toml")
        self.train("bfloat16.toml", model={"dtype": "bfloat16"}, optimizer={"state": "int8", "gradients": "release"})
        self.train("gathered.toml", parallel={"expert_parallel": 1}, train={"recompute": "none"})
        last = self.train("last.toml")
        before, after = numbers(first / "dump.h5"), numbers(last / "dump.h5")
        self.assertEqual(before.keys(), after.keys())
        for name, values in before.items():
            self.assertTrue(numpy.array_equal(values, after[name]), name)

    def test_logs_and_status_are_those_of_each_job_alone(self):
        first = self.train("first.toml", train={"steps": 2})
        second = self.train("second.toml", train={"steps": 2})
        for run in (first, second):
            logs = sorted((run / "logs").iterdir())
            self.assertEqual(len(logs), 3)
            for log in logs:
                self.assertEqual(log.read_text().count("started "), 1)
            self.assertEqual(json.loads((run / "status.json").read_text())["state"], "done")

    def test_a_job_that_fails_on_all_ranks_together_leaves_them_to_the_next(self):
        self.train("first.toml", train={"steps": 2})
        runner = suite.usual_runner()
        refused = self.write_job("refused.toml", **reference_job("qwen3-moe-tiny", model={"path": self.directory / "none"}))
        self.expect(run_job(2, refused), 65, str(self.directory / "none"))
        broken = self.write_job("broken.toml", **reference_job("qwen3-moe-tiny", data={"tokens": self.directory / "none.h5"}))
        result = run_job(3, broken)
        self.expect(result, 65, "none.h5", "exit code 65")
        self.expect_once(result, "exit code")
        self.assertEqual(json.loads((self.output_of(broken) / "status.json").read_text())["exit_code"], 65)
        self.train("last.toml", train={"steps": 2})
        self.assertIs(suite.usual_runner(), runner)

    def test_a_job_that_ends_the_runner_is_told_as_a_process_of_its_own_would(self):
        model = self.directory / "model"
        model.mkdir()
        for file in ["config.json", "model.safetensors"]:
            (model / file).write_bytes((FIXTURES / "qwen3-moe-tiny" / file).read_bytes())
        with open(model / "model.safetensors", "r+b") as file:
            file.truncate(1000)
        job = self.write_job("cut.toml", **reference_job("qwen3-moe-tiny", model={"path": model}))
        self.expect(run_job(3, job), 65, "model.safetensors", "exit code 65")
        self.train("after.toml", train={"steps": 2})


if __name__ == "__main__":
    unittest.main(verbosity=2)
