"""Training over NCCL: the other device as a GPU of the stand-ins for CUDA's runtime and NCCL, whose streams are late.

SLUICE is the program that has them.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))
import h5py
import program
from program import mpirun, reference_job
from reference_test import FIXTURE, ReferenceTest


class NcclTest(ReferenceTest):
    def train(self, ranks, fixture=FIXTURE, **changes):
        job = self.write_job(f"{fixture}.toml", **reference_job(fixture, device={"kind": "cuda"}, **changes))
        result = mpirun(ranks, "env", "SLUICE_STAND_IN_DELAY_US=60", program.SLUICE, "run", job)
        self.expect(result, 0, "of Stand-in GPU")
        self.assertNotIn("no NCCL", result.output)
        return self.output_of(job)


class Numbers(NcclTest):
    def test_are_those_of_transformers_where_tokens_travel_to_their_experts(self):
        self.compare(self.train(2))

    def test_are_those_of_transformers_where_experts_are_gathered(self):
        self.compare(self.train(3, parallel={"expert_parallel": 1}))

    def test_are_those_of_transformers_with_windows_sinks_and_latent_attention(self):
        for fixture in ("gpt_oss-tiny", "deepseek_v3-tiny"):
            with self.subTest(fixture=fixture):
                self.expect_reference(self.train(2, fixture), program.FIXTURES / fixture)


class Ways(NcclTest):
    def losses(self, name, ranks, **changes):
        whole, self.directory = self.directory, self.directory / name
        self.directory.mkdir()
        with h5py.File(self.train(ranks, **changes) / "metrics.h5") as metrics:
            self.directory = whole
            return metrics["train/loss"][:], metrics["memory/device_peak_bytes"][:]

    def test_the_same_ranks_have_the_same_bits_and_groups_of_experts_the_same_numbers(self):
        changes = {"train": {"steps": 2}, "debug": {"dump": ""}}
        (first, peaks), (second, _), (grouped, _) = (
            self.losses("first", 2, optimizer={"gradients": "release"}, **changes),
            self.losses("second", 2, optimizer={"gradients": "release"}, **changes),
            self.losses("grouped", 4, parallel={"expert_parallel": 2}, **changes))
        self.assertTrue((first == second).all(), (first, second))
        self.assertLess(abs(first - grouped).max(), 2e-5)
        self.assertEqual(peaks.shape, (2, 2))
        self.assertGreater(peaks.min(), 0)

    def test_a_collective_that_hangs_where_the_device_waits_for_it_ends_the_job(self):
        job = self.write_job(**reference_job(FIXTURE, device={"kind": "cuda"}, deadline={"step_seconds": 3}))
        result = mpirun(2, "env", "SLUICE_STAND_IN_FAULT=hang:1:30", program.SLUICE, "run", job)
        self.expect(result, 70, "section step")
        self.assertLess(result.seconds, 3 + program.GUARD_SECONDS, result.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
