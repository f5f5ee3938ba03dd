"""What a run tells of how evenly its experts are used, and the losses that act on its routers."""
import json
import re
import unittest

import h5py
import numpy
from program import FIXTURES, JobTest, reference_job, sluice
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

    def test_tells_a_plan_which_ranks_tokens_go_to(self):
        """In a group of more ranks than gather all tokens."""
        self.run_of("qwen3-moe-tiny")
        job = self.directory / "qwen3-moe-tiny.toml"
        words = ["plan", job, "--ranks", 5, "--json"]
        even, counted = (json.loads(sluice(*words, *more).output) for more in ([], ["--routing", self.output_of(job)]))
        tokens = [[rank["sent_bytes"]["tokens"] for rank in plan["ranks"]] for plan in (even, counted)]
        self.assertLess(sum(tokens[1]), sum(tokens[0]))
        self.assertGreater(max(tokens[1]), min(tokens[1]))
        other = self.write_job("other.toml", **reference_job("qwen3_5-moe-tiny"))
        self.expect(sluice("plan", other, "--ranks", 5, "--routing", self.output_of(job)), 65, "plan.routing", str(self.output_of(job)))

    def test_names_the_keys_that_the_job_and_the_family_leave(self):
        result, _ = self.run_of("qwen3-moe-tiny", aux_loss_scope="layer", aux_loss_coefficient=0.02)
        warning, = self.warnings_of(result)
        self.assertIn("train.aux_loss_coefficient = 0.2", warning)
        self.assertNotIn("aux_loss_scope", warning)
        result, _ = self.run_of("minimax_m2-tiny")
        warning, = self.warnings_of(result)
        self.assertIn("train.router_bias_update_rate = 0.001", warning)


class ZLoss(JobTest):
    COEFFICIENT = 0.1

    def run_of(self, fixture, ranks, coefficient=COEFFICIENT, parallel=None, **train):
        """Its first steps, by metrics."""
        name = f"{fixture}-{ranks}-{coefficient}-{len(train)}"
        job = self.write_job(f"{name}.toml", **reference_job(fixture, debug={"dump": ""}, parallel=parallel or {},
                                                             train={"steps": 5, "router_z_loss": coefficient, **train}))
        self.result = run_job(ranks, job)
        self.expect(self.result, 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return {name: metrics[name][:] for name in ("moe/z_loss", "train/loss", "train/grad_norm")}

    def test_is_the_same_however_a_batch_is_split_and_whatever_is_recomputed(self):
        for fixture in ("qwen3-moe-tiny", "minimax_m2-tiny", "gpt_oss-tiny"):
            expected = self.run_of(fixture, 1, micro_batch_sequences=6)
            for found in (self.run_of(fixture, 2, micro_batch_sequences=2, recompute="none"),
                          self.run_of(fixture, 3, parallel={"expert_parallel": 1}),
                          self.run_of(fixture, 3, parallel={"expert_parallel": 3}, micro_batch_sequences=2, recompute="all")):
                for name, values in expected.items():
                    numpy.testing.assert_allclose(found[name][0], values[0], rtol=1e-6, err_msg=f"{fixture} {name}")
                    numpy.testing.assert_allclose(found[name], values, rtol=3e-5, err_msg=f"{fixture} {name}")

    def test_is_told_and_falls_where_it_has_a_weight(self):
        with_it = self.run_of("qwen3-moe-tiny", 2)["moe/z_loss"]
        shown = re.findall(r"step \d+/\d+ .*, z-loss ([0-9.e-]+) ", self.result.output)
        self.assertEqual(shown[-1], f"{with_it[-1]:.4g}")
        alone = self.run_of("qwen3-moe-tiny", 2, coefficient=1e-12)["moe/z_loss"]
        self.assertEqual(with_it[0], alone[0])
        self.assertLess(with_it[-1], alone[-1])
        self.assertTrue(numpy.isnan(self.run_of("qwen3-moe-tiny", 2, coefficient=0.0)["moe/z_loss"]).all())
        self.assertNotIn("z-loss", self.result.output)

    def test_of_a_model_without_experts_is_refused(self):
        job = self.write_job(**reference_job("qwen3-tiny-tied", train={"router_z_loss": 0.1}))
        self.expect(sluice("check", job), 78, "train.router_z_loss", "0.1", "expected 0", "qwen3")


class BalancingLoss(JobTest):
    """Families that transformers has none for, by the directories of their configs."""

    def test_is_refused_where_a_family_has_none_and_left_out_by_default(self):
        for name, cure in [("DeepSeek-V2-Lite", "router_z_loss"), ("Moonlight-16B-A3B", "router_bias_update_rate"),
                           ("MiniMax-M2", "router_bias_update_rate"), ("ERNIE-4.5-21B-A3B", "router_bias_update_rate")]:
            with self.subTest(model=name):
                job = self.write_job(**reference_job("qwen3-moe-tiny", model={"path": FIXTURES / "configs" / name, "dtype": "bfloat16"},
                                                     train={"aux_loss_coefficient": 0.001}))
                self.expect(sluice("plan", job, "--ranks", 3), 78, "train.aux_loss_coefficient", "0.001", "expected 0", cure)
                self.expect(sluice("plan", job, "--ranks", 3, "--set=train.aux_loss_coefficient=-1.0", "--memory", "30TB"), 0)


if __name__ == "__main__":
    unittest.main()
