"""What a run tells of how evenly its experts are used."""
import re
import unittest

import h5py
import numpy
from program import FIXTURES, JobTest, reference_job
from suite import run_job

STEPS = 22


class Collapse(JobTest):
    """All tokens are the same one, so that all of a layer go to the same experts."""

    def run_of(self, fixture, **train):
        tokens = self.directory / "same.h5"
        with h5py.File(tokens, "w") as file:
            file["tokens"] = numpy.full(2000, 7, numpy.int32)
        job = self.write_job(f"{fixture}.toml", **reference_job(fixture, debug={"dump": ""}, data={"tokens": tokens, "sequence_length": 16},
                                             optimizer={"learning_rate": 0.0}, train={"steps": STEPS, **train}))
        result = run_job(2, job)
        self.expect(result, 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return result, {name: metrics[f"moe/{name}"][:] for name in ("expert_tokens", "busiest_load", "unused_experts")}

    def warnings_of(self, result):
        return [line for line in result.output.splitlines() if "collapsed" in line]

    def test_is_told_once_with_its_cure_and_in_every_step(self):
        result, loads = self.run_of("qwen3-moe-tiny")
        experts = loads["expert_tokens"].shape[2]
        numpy.testing.assert_allclose(loads["busiest_load"], (loads["expert_tokens"].max(2) / loads["expert_tokens"].mean(2)).max(1))
        numpy.testing.assert_array_equal(loads["unused_experts"], (loads["expert_tokens"] == 0).sum((1, 2)))
        self.assertGreater(loads["unused_experts"].min(), 0)
        warning, = self.warnings_of(result)
        for part in ("step 20", "layer ", f"of {experts} experts", 'train.aux_loss_scope = "layer"', "train.aux_loss_coefficient"):
            self.assertIn(part, warning)
        shown = re.findall(r"step \d+/\d+ .* experts to ([0-9.]+)x, (\d+) unused", result.output)
        self.assertEqual(shown[-1], (f"{loads['busiest_load'][-1]:.1f}", str(loads["unused_experts"][-1])))

    def test_names_the_keys_that_the_job_and_the_family_leave(self):
        result, _ = self.run_of("qwen3-moe-tiny", aux_loss_scope="layer", aux_loss_coefficient=0.02)
        warning, = self.warnings_of(result)
        self.assertIn("train.aux_loss_coefficient = 0.2", warning)
        self.assertNotIn("aux_loss_scope", warning)
        result, _ = self.run_of("minimax_m2-tiny")
        warning, = self.warnings_of(result)
        self.assertIn("train.router_bias_update = 0.001", warning)


if __name__ == "__main__":
    unittest.main()
