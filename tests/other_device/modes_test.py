"""Modes of the optimizer, an evaluation and a run that goes on, on the other device: the losses that the same job has here.

SLUICE is the program that computes on the device, SLUICE_HERE the one that computes on this processor.
"""
import os
import pathlib
import sys
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))
import program
from program import JobTest, reference_job
from suite import run_job
from trajectories import Trajectory, expect_follows

HERE = os.environ["SLUICE_HERE"]


class Modes(JobTest):
    def trajectory(self, binary, name, ranks=2, **changes):
        job = self.write_job(f"{name}.toml", **reference_job("qwen3-moe-tiny", **changes))
        with unittest.mock.patch.object(program, "SLUICE", binary):
            self.expect(run_job(ranks, job), 0)
        return Trajectory.of_run(self.output_of(job))

    def expect_same(self, dtype="float32", **changes):
        changes |= {"model": {"dtype": dtype}, "train": {"steps": 4}}
        expected, found = (self.trajectory(binary, name, **changes) for name, binary in (("here", HERE), ("device", program.SLUICE)))
        self.assertEqual(len(found.losses), 4)
        expect_follows(self, found, expected, lambda: self.trajectory(HERE, "again", 3, **changes), dtype)
        self.assertLess(found.losses[-1], found.losses[0])

    def test_int8_state_and_released_gradients(self):
        self.expect_same(optimizer={"state": "int8", "gradients": "release"})

    def test_gradients_in_bfloat16(self):
        self.expect_same(optimizer={"gradients": "bfloat16"})

    def test_each_matrix_clipped_by_itself_without_global_norm(self):
        self.expect_same(optimizer={"gradients": "release", "clip": "unit"})

    def test_adafactor(self):
        self.expect_same(optimizer={"kind": "adafactor", "state": "factored"})

    def test_adapters_whose_inputs_are_dropped_now_and_then(self):
        lora = {"rank": 4, "alpha": 8, "dropout": 0.2, "targets": ["linear-modules", "lm_head"]}
        self.expect_same(optimizer={"learning_rate": 0.01}, lora=lora)

    # Numbers of bfloat16 are rounded at other places here and there.
    def test_bfloat16_weights_with_24_bits_of_master_and_int8_state(self):
        self.expect_same("bfloat16", optimizer={"state": "int8", "master": "24bit", "gradients": "release"})

    def test_bfloat16_weights_alone(self):
        self.expect_same("bfloat16", optimizer={"state": "int8", "master": "none", "gradients": "release"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
