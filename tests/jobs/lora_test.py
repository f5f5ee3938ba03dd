"""Adapters and frozen parameters: what is trained, what stays as it was, saving and resuming.

    lora_test.py [Adapters | Frozen | Saving | Refusals]...
"""
import json
import shutil
import unittest

import h5py
import numpy
import program
from program import JobTest, reference_job
from suite import run_job
from trajectories import Trajectory, expect_follows

FIXTURE = "qwen3_5-moe-tiny"
TARGETS = ["all-linear", "mlp.gate", "lm_head"]


def final_weights(output):
    """Of the dump, by the names of the text model."""
    with h5py.File(output / "dump.h5") as dump:
        return {name: values[:] for name, values in dump["train/final"].items()}


def losses(output):
    """Of all starts of a run, one after the other."""
    found = []
    for file in [output / "metrics.h5", *sorted(output.glob("metrics.*.h5"))]:
        with h5py.File(file) as metrics:
            found += list(metrics["train/loss"][:])
    return numpy.array(found)


class LoraTest(JobTest):
    def job(self, name="job.toml", fixture=FIXTURE, **changes):
        changes.setdefault("optimizer", {}).setdefault("learning_rate", 0.01)
        changes.setdefault("train", {}).setdefault("steps", 4)
        return self.write_job(name, **reference_job(fixture, **changes))

    def run_job(self, ranks, job, status=0, *parts):
        result = run_job(ranks, job)
        self.expect(result, status, *parts)
        return self.output_of(job)

    def train(self, ranks, name, **changes):
        return self.run_job(ranks, self.job(name, **changes))

    def untrained(self):
        """What the fixture holds, as a training that makes no update dumps it."""
        return final_weights(self.train(1, "untrained.toml", optimizer={"learning_rate": 0.0}, train={"steps": 1}))

    def assert_same_losses(self, first, second, tolerance=2e-5):
        first, second = losses(first), losses(second)
        self.assertEqual(len(first), len(second))
        self.assertLess(abs(first - second).max(), tolerance)


class Adapters(LoraTest):
    LORA = {"rank": 4, "alpha": 8, "targets": TARGETS}

    def test_leave_every_weight_of_the_model_bit_for_bit_as_it_was(self):
        before, output = self.untrained(), self.train(2, "lora.toml", lora=self.LORA)
        after = final_weights(output)
        self.assertGreater(losses(output)[0] - losses(output)[-1], 0.2)
        self.assertEqual(set(before), {name for name in after if ".lora_" not in name})
        for name, weight in before.items():
            self.assertTrue(numpy.array_equal(weight, after[name]), name)
        moved = [name for name in after if name.endswith(("lora_B.weight", "lora_B")) and after[name].any()]
        self.assertEqual(len(moved), sum(".lora_B" in name for name in after))

    def test_begin_as_the_model_is(self):
        model = self.train(1, "model.toml", optimizer={"learning_rate": 0.0}, train={"steps": 1})
        adapted = self.train(1, "adapted.toml", optimizer={"learning_rate": 0.0}, train={"steps": 1}, lora=self.LORA)
        self.assert_same_losses(model, adapted, 1e-6)

    def test_are_the_same_for_every_number_of_ranks_and_where_experts_are_gathered(self):
        one = self.train(1, "one.toml", lora=self.LORA)
        self.assert_same_losses(one, self.train(3, "three.toml", lora=self.LORA))
        self.assert_same_losses(one, self.train(2, "gathered.toml", lora=self.LORA, parallel={"expert_parallel": 1}))

    def test_are_the_same_whether_gradients_are_kept_or_released(self):
        kept = self.train(2, "kept.toml", lora=self.LORA)
        self.assert_same_losses(kept, self.train(2, "released.toml", lora=self.LORA, optimizer={"gradients": "release"}))

    def test_drop_the_same_inputs_on_every_number_of_ranks_and_others_by_another_seed(self):
        lora = {"rank": 4, "dropout": 0.2, "targets": ["linear-modules", "lm_head"]}
        one = self.train(1, "one.toml", lora=lora)
        self.assert_same_losses(one, self.train(3, "three.toml", lora=lora))
        kept_graphs = {"steps": 4, "recompute": "none", "micro_batch_sequences": 2}
        self.assert_same_losses(one, self.train(2, "two.toml", lora=lora, train=kept_graphs))
        other = self.train(1, "other.toml", lora={**lora, "seed": 1})
        self.assertGreater(abs(losses(one)[1:] - losses(other)[1:]).max(), 1e-4)

    def test_follow_in_bfloat16_with_eight_bits_of_state(self):
        """Of a model without experts, of which a rounding would choose others after two steps."""
        lora = self.LORA | {"targets": ["all-linear", "lm_head"]}

        def trajectory(name, ranks=3, **optimizer):
            return Trajectory.of_run(self.train(ranks, name, fixture="qwen3-tiny-tied", lora=lora, model={"dtype": "bfloat16"}, optimizer=optimizer))

        small = trajectory("small.toml", state="int8", master="24bit", gradients="release")
        expect_follows(self, small, trajectory("exact.toml"), lambda: trajectory("again.toml", 2))


class Frozen(LoraTest):
    def test_parameters_stay_as_they_were_and_the_others_are_trained(self):
        before = self.untrained()
        after = final_weights(self.train(3, "frozen.toml", train={"freeze": ["model.embed*", "model.layers.0.*", "model.layers.1.*"], "steps": 2}))
        for name, weight in before.items():
            is_frozen = name.startswith(("model.layers.0.", "model.layers.1.", "model.embed"))
            self.assertEqual(numpy.array_equal(weight, after[name]), is_frozen, name)

    def test_some_of_a_layers_experts_tensors_may_be_frozen(self):
        before = self.untrained()
        for ranks, parallel in ((3, 0), (2, 1)):
            after = final_weights(self.train(ranks, f"half{ranks}.toml", train={"freeze": "*.experts.down_proj", "steps": 2},
                                             parallel={"expert_parallel": parallel}))
            for name, weight in before.items():
                self.assertEqual(numpy.array_equal(weight, after[name]), name.endswith("experts.down_proj"), name)

    def test_ranks_keep_frozen_weights_if_they_fit_and_train_as_with_gathered_ones(self):
        options = {"freeze": "*.self_attn.*", "steps": 3}
        runs = {frozen: self.train(3, f"{frozen}.toml", train=options, parallel={"frozen": frozen}) for frozen in ("auto", "gathered", "kept")}
        sent, kept = {}, {}
        for frozen, run in runs.items():
            with h5py.File(run / "metrics.h5") as metrics:
                sent[frozen] = int(metrics["train/communicated_bytes"][-1])
            kept[frozen] = [rank["kept_weights_bytes"] for rank in json.loads((run / "plan.json").read_text())["ranks"]]
            self.assertEqual(list(losses(run)), list(losses(runs["gathered"])))
        self.assertEqual(kept["gathered"], [0, 0, 0])
        self.assertGreater(min(kept["kept"]), 0)
        self.assertEqual(kept["auto"], kept["kept"])
        self.assertEqual(sent["auto"], sent["kept"])
        self.assertLess(sent["kept"], sent["gathered"])
        plan = program.sluice("plan", self.job("short.toml", train=options), "--ranks", 3, "--memory", "1MB", "--json")
        self.assertEqual(json.loads(plan.output)["ranks"][0]["kept_weights_bytes"], 0)

    def test_all_but_the_head_is_the_same_training_as_without_a_backward_pass_through_layers(self):
        one = self.train(1, "one.toml", train={"freeze": ["model.*"], "steps": 2})
        self.assert_same_losses(one, self.train(3, "three.toml", train={"freeze": ["model.*"], "steps": 2}))
        self.assertLess(losses(one)[1], losses(one)[0])


class Saving(LoraTest):
    LORA = {"rank": 4, "targets": TARGETS}

    def saved_twice(self, ranks, again, freeze=(), **changes):
        """A training in one go, and the same in two parts on different numbers of ranks."""
        changes["train"] = {"steps": 6, "freeze": list(freeze)}
        whole = self.train(1, "whole.toml", **changes)
        job = self.job("parts.toml", checkpoint={"every_steps": 3, "every_minutes": 0}, **changes)
        output = self.run_job(ranks, job)
        shutil.rmtree(output / "checkpoints/step-00000006")
        self.run_job(again, job, 0, "resume    from step 3")
        found = losses(output)
        self.assertLess(abs(found[:6] - losses(whole)).max(), 1e-4)
        self.assertLess(abs(found[6:] - losses(whole)[3:]).max(), 1e-4)
        return output

    def test_goes_on_at_another_rank_count_and_holds_what_is_trained_alone(self):
        output = self.saved_twice(2, 3, lora=self.LORA)
        model = (program.FIXTURES / FIXTURE / "model.safetensors").stat().st_size
        step = sum(file.stat().st_size for file in output.glob("checkpoints/step-00000003/rank-*"))
        self.assertLess(step, 0.8 * 3 * model)  # weights and two moments of all would be more than three times the model

    def test_goes_on_with_frozen_parameters(self):
        self.saved_twice(3, 2, freeze=["model.layers.0.*", "model.embed*"])

    def test_adapts_a_saved_step_as_the_model_that_is_exported_from_it(self):
        dtype = {"dtype": "bfloat16"}  # that of the exported weights, so that nothing is rounded
        run, exported = self.train(2, "run.toml", model=dtype, checkpoint={"every_steps": 4, "every_minutes": 0}), self.directory / "exported"
        self.expect(program.sluice("checkpoint", "export", run, exported), 0)
        found, expected = (self.train(3, f"{model.name}-adapted.toml", model=dtype | {"path": model}, lora=self.LORA) for model in (run, exported))
        self.assert_same_losses(found, expected)

    def test_another_base_is_refused_by_its_digest(self):
        job = self.job("job.toml", lora=self.LORA, checkpoint={"every_steps": 2, "every_minutes": 0})
        self.run_job(2, job)
        other = self.directory / "other"
        shutil.copytree(program.FIXTURES / FIXTURE, other)
        weights = bytearray((other / "model.safetensors").read_bytes())
        weights[-3] ^= 1
        (other / "model.safetensors").write_bytes(weights)
        result = run_job(3, job, "--set", f"model.path={other}", "--set", "train.steps=6")
        self.expect(result, 65, "model.path", "is not what", "frozen weights have")
        self.expect_once(result, "frozen weights have")


class Refusals(LoraTest):
    def check(self, status, *parts, **changes):
        result = program.run(program.SLUICE, "check", self.job(**changes))
        self.expect(result, status, *parts)

    def test_an_unknown_target(self):
        self.check(78, 'lora.targets: found "q_porj"', lora={"rank": 4, "targets": ["q_porj", "k_proj"]})

    def test_a_rank_of_zero(self):
        self.check(78, "lora.rank: found 0, expected at least 1", lora={"rank": 0, "targets": "q_proj"})

    def test_dropout_of_routed_experts_and_routers(self):
        for target in ("down_proj", "mlp.gate", "all-linear"):
            self.check(78, "lora.dropout: found 0.1, expected 0", "linear-modules", lora={"rank": 4, "dropout": 0.1, "targets": target})
        self.check(0, lora={"rank": 4, "dropout": 0.1, "targets": "linear-modules"})

    def test_a_pattern_that_freezes_nothing_and_patterns_that_freeze_all(self):
        self.check(78, 'train.freeze: "layer*" means no tensor', train={"freeze": "layer*"})
        self.check(78, "train.freeze: found patterns that mean every tensor", train={"freeze": "*"})

    def test_patterns_beside_adapters(self):
        self.check(78, "train.freeze: found patterns, expected none", train={"freeze": "model.*"}, lora={"rank": 4})


if __name__ == "__main__":
    unittest.main()
