"""Fewer bits on the wire (parallel.reduce, parallel.dispatch): numbers within what the roundings explain, bytes and memory as planned.

    wire_test.py [Reduce | Dispatch | Both | Agreed]...
"""
import unittest

import h5py
import numpy

import program
from program import FIXTURES, JobTest, mpirun, per_rank, reference_job
from suite import run_job
from trajectories import LOSS, NORM, Trajectory, least_allowed

FAMILIES = (("qwen3-moe-tiny", 2), ("gpt_oss-tiny", 3), ("qwen3_5-moe-tiny", 4), ("deepseek_v3-tiny", 6), ("mixtral-tiny", 3))
ADAPTERS = {"rank": 4, "alpha": 8, "targets": ["all-linear", "lm_head"]}
# A part of a gradient that is sent in bfloat16 is off by half a unit of its eighth bit at most; a norm by less, as roundings have any sign.
ROUNDED_NORM = 2.0**-8
# A number that another order of sums moves across the border of two codes differs by a 127th of its block's largest one. Few do.
TURNED_LOSS, TURNED_NORM = 2e-4, 5e-3
# Codes of 8 bits change each number that experts get by up to a 254th of the largest of 128 beside it.
CODED_LOSS = 5e-3


class WireTest(JobTest):
    def train(self, ranks, name, fixture="qwen3-moe-tiny", **changes):
        defaults = {"debug": {"dump": ""}, "guard": {"compare_ranks_every": 1}, "checkpoint": {"every_minutes": 0}}
        tables = reference_job(fixture, **defaults)
        for table, keys in changes.items():
            tables.setdefault(table, {}).update(keys)
        job = self.write_job(f"{fixture}-{ranks}-{name}.toml", **tables)
        self.expect(run_job(ranks, job), 0)
        return self.output_of(job)

    def expect_first_step(self, found, expected, loss, norm):
        for name, tolerance in (("losses", loss), ("norms", norm)):
            first, other = float(getattr(found, name)[0]), float(getattr(expected, name)[0])
            self.assertLessEqual(abs(first - other), tolerance * other, f"{name}: found {first}, expected {other}")


class Reduce(WireTest):
    ROUNDED = {"reduce": "bfloat16"}

    def test_families_have_the_first_loss_and_nearly_the_norm_of_one_rank(self):
        for fixture, ranks in FAMILIES:
            with self.subTest(fixture=fixture, ranks=ranks):
                expected = Trajectory.of_run(self.train(1, "exact", fixture))
                found = Trajectory.of_run(self.train(ranks, "rounded", fixture, parallel=self.ROUNDED))
                self.expect_first_step(found, expected, LOSS["float32"], ROUNDED_NORM)
                self.assertNotEqual(found.norms[0], expected.norms[0])
                steps = found.steps_with_choices_of(expected)
                apart = abs(found.losses - expected.losses)[:steps].max(initial=0)
                self.assertLessEqual(apart, 4 * least_allowed(expected.losses))

    def test_one_rank_rounds_nothing(self):
        exact, rounded = (Trajectory.of_run(self.train(1, name, parallel={"reduce": name})) for name in ("float32", "bfloat16"))
        self.assertEqual((exact.losses.tolist(), exact.norms.tolist()), (rounded.losses.tolist(), rounded.norms.tolist()))

    def expect_half(self, ranks, name, purposes, fixture="qwen3-moe-tiny", **changes):
        """Half of the bytes of gradients, the first loss of float32, and nearly its norm."""
        parallel = changes.pop("parallel", {})
        changes.setdefault("train", {"steps": 2})
        exact, rounded = (self.train(ranks, f"{name}-{reduce}", fixture, parallel=parallel | {"reduce": reduce}, **changes)
                          for reduce in ("float32", "bfloat16"))
        self.expect_first_step(Trajectory.of_run(rounded), Trajectory.of_run(exact), LOSS["float32"], ROUNDED_NORM)
        (counted, planned), (counted_halves, planned_halves) = program.sent_bytes(exact), program.sent_bytes(rounded)
        for purpose in purposes:
            self.assertEqual(2 * planned_halves[purpose], planned[purpose])
            self.assertGreater(planned[purpose], 0)
        # What else travels is the same, so what is saved is known to the byte but for rows of the embedding.
        saved = planned["all"] - planned_halves["all"]
        self.assertAlmostEqual((counted - counted_halves) / saved, 1, delta=0.02)

    def test_gathered_experts(self):
        self.expect_half(3, "gathered", ("dense_gradients", "expert_gradients"), parallel={"expert_parallel": 1})

    def test_groups(self):
        self.expect_half(4, "groups", ("dense_gradients", "expert_gradients"), parallel={"expert_parallel": 2})

    def test_copies_of_the_model(self):
        self.expect_half(4, "copies", ("dense_gradients", "expert_gradients"), parallel={"replicas": 2})
        self.expect_half(3, "copies", ("dense_gradients", "expert_gradients"), parallel={"replicas": 3})

    def test_adapters(self):
        self.expect_half(3, "adapters", ("dense_gradients",), lora=ADAPTERS)

    def test_released_gradients_clipped_by_the_norm_of_all(self):
        self.expect_half(3, "released", ("dense_gradients",), optimizer={"gradients": "release"})

    def test_sharded_vocabulary(self):
        self.expect_half(3, "sharded", ("dense_gradients",), parallel={"vocabulary": "sharded"})

    def test_tied_head(self):
        self.expect_half(3, "tied", ("dense_gradients",), "qwen3-tiny-tied")


class Dispatch(WireTest):
    CODED = {"dispatch": "int8"}

    def test_families_have_the_numbers_of_one_rank_that_rounds_too(self):
        for fixture, ranks in FAMILIES:
            with self.subTest(fixture=fixture, ranks=ranks):
                exact = Trajectory.of_run(self.train(1, "exact", fixture))
                expected = Trajectory.of_run(self.train(1, "coded", fixture, parallel=self.CODED))
                found = Trajectory.of_run(self.train(ranks, "coded", fixture, parallel=self.CODED))
                self.expect_first_step(found, expected, TURNED_LOSS, TURNED_NORM)
                self.assertNotEqual(exact.losses[0], expected.losses[0])
                self.expect_first_step(expected, exact, CODED_LOSS, 10 * CODED_LOSS)

    def test_recomputes_the_same_roundings(self):
        found = [Trajectory.of_run(self.train(3, recompute, parallel=self.CODED, train={"recompute": recompute, "steps": 2}))
                 for recompute in ("layer", "none", "all")]
        for other in found[1:]:
            self.assertEqual((other.losses[0], other.norms[0]), (found[0].losses[0], found[0].norms[0]))

    def test_gathered_experts_groups_and_copies(self):
        expected = Trajectory.of_run(self.train(1, "coded", parallel=self.CODED))
        for ranks, parallel in ((2, {"expert_parallel": 1}), (4, {"expert_parallel": 2}), (4, {"replicas": 2}), (3, {"replicas": 3})):
            with self.subTest(ranks=ranks, parallel=parallel):
                name = "-".join(f"{key}-{value}" for key, value in parallel.items())
                found = Trajectory.of_run(self.train(ranks, name, parallel=self.CODED | parallel))
                self.expect_first_step(found, expected, TURNED_LOSS, TURNED_NORM)

    def test_sends_what_was_planned_and_at_most_72_of_100_bytes(self):
        for ranks in (3, 6):  # which all-gather tokens, and which send them to their experts' ranks
            outputs = [self.train(ranks, f"bytes-{dispatch}", "qwen3-moe-tiny", model={"dtype": "bfloat16"},
                                  train={"steps": 2, "batch_sequences": 12}, parallel={"dispatch": dispatch})
                       for dispatch in ("dtype", "int8")]
            (counted, planned), (fewer, planned_fewer) = map(program.sent_bytes, outputs)
            self.assertAlmostEqual((counted - fewer) / (planned["all"] - planned_fewer["all"]), 1, delta=0.02 if ranks == 3 else 0.08)
            # Of so narrow a model the choices of experts are a tenth.
            self.assertLess(planned_fewer["tokens"] / planned["tokens"], 0.76)

    def test_base_in_its_files(self):
        changes = {"lora": ADAPTERS, "load": {"readers": "all"}, "train": {"steps": 2},
                   "model": {"path": FIXTURES / "qwen3-moe-tiny-fp8-blocks", "frozen_format": "stored"}}
        memory = {"offload": "source", "limit": "400MiB"}
        expected = Trajectory.of_run(self.train(1, "in-memory", parallel=self.CODED, **changes))
        found = Trajectory.of_run(self.train(2, "in-files", parallel=self.CODED, memory=memory, **changes))
        self.expect_first_step(found, expected, TURNED_LOSS, TURNED_NORM)

    def test_evaluates_and_answers_with_the_same_roundings(self):
        prompts = self.write_prompts()
        losses, answers = [], []
        for ranks, parallel in ((1, {}), (1, self.CODED), (3, self.CODED)):
            name = f"{len(losses)}"
            output = self.train(ranks, name, job={"kind": "evaluate"}, parallel=parallel)
            with h5py.File(output / "metrics.h5") as metrics:
                losses.append(metrics["evaluate/total_loss"][0])
            generate = {"prompts": prompts, "max_tokens": 6, "ignore_eos": True, "batch_sequences": 4}
            output = self.train(ranks, f"answers-{name}", job={"kind": "generate"}, generate=generate, parallel=parallel)
            answers.append(program.answers(output))
        self.assertNotEqual(losses[0], losses[1])
        self.assertLess(abs(losses[2] / losses[1] - 1), TURNED_LOSS)
        self.assertEqual(answers[1], answers[2])


class Both(WireTest):
    def test_memory_and_bytes_as_planned(self):
        for ranks, parallel in ((3, {}), (4, {"replicas": 2})):
            output = self.train(ranks, f"both-{len(parallel)}", "qwen3_5-moe-tiny", train={"steps": 3},
                                parallel={"reduce": "bfloat16", "dispatch": "int8"} | parallel)
            with h5py.File(output / "metrics.h5") as metrics:
                planned, measured = metrics["memory/planned_bytes"][:], metrics["memory/peak_growth_bytes"][:]
            self.assertLess((measured / planned).max(), 1)

    def test_goes_on_from_a_step_with_other_formats(self):
        every = {"checkpoint": {"every_steps": 1}, "train": {"steps": 2}}
        first = self.train(3, "resumed", parallel={"reduce": "bfloat16", "dispatch": "int8"}, **every)
        job = self.directory / "qwen3-moe-tiny-3-resumed.toml"
        result = run_job(2, job, "--set", "parallel.reduce=float32", "--set", "parallel.dispatch=dtype", "--set", "train.steps=4")
        self.expect(result, 0)
        losses = program.losses(first)
        self.assertEqual(sorted(losses), [1, 2, 3, 4])
        self.assertTrue(numpy.isfinite(list(losses.values())).all())


class Agreed(WireTest):
    def test_ranks_with_other_formats_part_before_a_weight_is_read(self):
        for key, values in (("reduce", ("float32", "bfloat16")), ("dispatch", ("dtype", "int8"))):
            jobs = [self.write_job(f"{value}.toml", **reference_job("qwen3-moe-tiny", job={"output": str(self.directory / "run")},
                                                                    parallel={key: value})) for value in values]
            result = mpirun(3, *per_rank(*([program.SLUICE, "run", job] for job in jobs)))
            self.expect(result, 70, "[comm.disagreement]", f"parallel.{key}")
            self.expect_prompt(result)


if __name__ == "__main__":
    unittest.main()
