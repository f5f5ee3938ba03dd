"""What device.kind chooses where there is another device: which memory the weights lie in, and which jobs take it."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))
import h5py
from program import FIXTURES, SLUICE, JobTest, mpirun, reference_job

MODEL = FIXTURES / "qwen3-moe-tiny"


class Choice(JobTest):
    def run_job(self, ranks, **changes):
        job = self.write_job(**reference_job("qwen3-moe-tiny", **changes))
        return mpirun(ranks, SLUICE, "run", job), self.output_of(job)

    def test_auto_and_cuda_take_it_and_cpu_does_not(self):
        losses = []
        for kind in ("auto", "cuda", "cpu"):
            result, output = self.run_job(2, job={"output": str(self.directory / kind)}, train={"steps": 2}, device={"kind": kind})
            takes_it = kind != "cpu"
            self.expect(result, 0)
            self.assertEqual("device    2 of Other device, one a rank" in result.output, takes_it, result.output)
            with h5py.File(self.directory / kind / "metrics.h5") as metrics:
                losses.append(metrics["train/loss"][:])
                self.assertEqual("device_peak_bytes" in metrics["memory"], takes_it)
                if takes_it:  # the weights and their gradients in float32 and AdamW's two moments
                    self.assertGreater(metrics["memory/device_peak_bytes"][:].min(), 2 * metrics["load/shard_bytes"][:].min())
        self.assertTrue((losses[0] == losses[1]).all())
        self.assertLess(abs(losses[0] - losses[2]).max(), 1e-4)

    def test_a_load_fills_its_memory_and_what_is_there_is_what_the_files_hold(self):
        result, _ = self.run_job(3, job={"kind": "load"}, load={"verify": True, "readers": "all"}, device={"kind": "cuda"})
        self.expect(result, 0, "device    3 of Other", "verified")

    def test_a_job_that_computes_nothing_stays_in_main_memory(self):
        result, _ = self.run_job(2, job={"kind": "export"}, export={"path": str(self.directory / "out")}, device={"kind": "cuda"})
        self.expect(result, 0, "export")
        self.assertNotIn("Other device", result.output)

    def test_more_than_the_device_has_is_refused_before_anything_is_read(self):
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text('{"tokens": [1]}\n')
        job = self.write_job(job={"kind": "generate"}, model={"path": MODEL, "dtype": "float32"},
                             generate={"prompts": prompts, "sequences": 4096, "positions": 4096})
        result = mpirun(1, SLUICE, "run", job)
        self.expect(result, 71, "GPU of rank 0 ", " 25.8", "4.29 GB left: 21.")
        self.assertNotIn("load ", result.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
