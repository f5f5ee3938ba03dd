"""Embedding and head that ranks have between them by rows (parallel.vocabulary): the numbers of one rank, and what is sent.

    vocabulary_test.py [Training | Using | ByPlan]...
"""
import json
import shutil
import unittest

import grid
import h5py
import numpy

import program
from program import FIXTURES
from replicas_test import ADAPTERS, FIXTURE, ReplicasTest
from suite import run_job
from trajectories import Trajectory, expect_follows

SHARDED = {"vocabulary": "sharded"}
FAMILIES = ["qwen3-moe-tiny", "gpt_oss-tiny", "qwen3_5-moe-tiny", "deepseek_v3-tiny", "qwen3-tiny-tied"]
SETTINGS = {
    "fixture": FAMILIES,
    "ranks": [2, 3, 4, 6],
    "replicas": [1, 2, 3],
    "frozen": ["no", "gathered", "kept"],
    "gradients": ["float32", "release"],
    "micro batches": [1, 2],
}


def is_allowed(row):
    return row["ranks"] % row["replicas"] == 0 and row["ranks"] > row["replicas"]


class VocabularyTest(ReplicasTest):
    def sharded(self, ranks, name, **changes):
        parallel = SHARDED | changes.pop("parallel", {})
        return self.train(ranks, parallel.pop("replicas", 1), name, parallel=parallel, **changes)


class Training(VocabularyTest):
    def expect_numbers_of_one_rank(self, ranks, fixture=FIXTURE, parallel=(), dtype="float32", **changes):
        model = {"dtype": dtype}
        one = self.job("one.toml", fixture=fixture, model=model, **changes)
        expected = Trajectory.of_run(self.run_job(1, one))
        shutil.rmtree(self.output_of(one))
        found = self.sharded(ranks, "sharded.toml", fixture=fixture, model=model, parallel=dict(parallel), **changes)
        expect_follows(self, Trajectory.of_run(found), expected, dtype=dtype)
        shutil.rmtree(found)

    def test_families_with_copies_of_the_model_and_frozen_weights(self):
        for row in grid.draw(SETTINGS, [{"fixture": name} for name in FAMILIES], is_allowed):
            with self.subTest(**row):
                changes = {} if row["frozen"] == "no" else {"lora": ADAPTERS | ({"targets": "all-linear"} if "tied" in row["fixture"] else {})}
                self.expect_numbers_of_one_rank(
                    row["ranks"], row["fixture"],
                    {"replicas": row["replicas"], "frozen": "auto" if row["frozen"] == "no" else row["frozen"]},
                    optimizer={"gradients": row["gradients"]}, train={"steps": 2, "micro_batch_sequences": row["micro batches"]}, **changes)

    def test_ranks_without_sequences(self):
        self.expect_numbers_of_one_rank(3, train={"batch_sequences": 1, "steps": 2})

    def test_weights_and_gradients_in_bfloat16_and_groups_of_experts(self):
        self.expect_numbers_of_one_rank(4, "qwen3-moe-tiny", {"expert_parallel": 2}, dtype="bfloat16", train={"steps": 2})

    def test_modes_of_the_optimizer(self):
        for optimizer in ({"kind": "adafactor", "state": "factored"}, {"state": "int8", "clip": "unit"}):
            self.expect_numbers_of_one_rank(3, optimizer=optimizer, train={"steps": 2})

    def test_goes_on_at_other_layouts(self):
        every = {"checkpoint": {"every_steps": 1}, "train": {"steps": 4}}
        expected = Trajectory.of_run(self.train(1, 1, "whole.toml", **every))
        for steps, (ranks, vocabulary) in enumerate(((3, "sharded"), (2, "gathered"), (4, "sharded"), (1, "sharded")), 1):
            job = self.job("cut.toml", parallel={"vocabulary": vocabulary}, **every)
            output = self.run_job(ranks, job, "--set", f"train.steps={steps}")
        found = program.losses(output)
        for step, loss in enumerate(expected.losses, 1):
            self.assertAlmostEqual(found[step], loss, delta=1e-4)

    def test_a_rank_that_is_killed_within_the_step_is_named(self):
        job = self.job(parallel=SHARDED)
        for site in ("train.step", "train.vocabulary"):
            self.expect_named_when_killed(3, job, site, 1, 2)
            shutil.rmtree(self.output_of(job))


class Using(VocabularyTest):
    def test_evaluates_answers_and_scores_as_one_rank(self):
        prompts, documents = self.write_prompts(), self.write_documents(FIXTURE)
        answers, scores, tops, totals = [], [], [], []
        for ranks in (1, 2, 3):
            generate = {"prompts": prompts, "max_tokens": 6, "ignore_eos": True, "batch_sequences": 2}
            job = self.job(f"answers-{ranks}.toml", job={"kind": "generate"}, generate=generate, parallel=SHARDED)
            answers.append(program.answers(self.run_job(ranks, job)))
            job = self.job(f"scores-{ranks}.toml", job={"kind": "score"}, data={"tokens": documents}, parallel=SHARDED,
                           score={"distribution": "top", "top": 4})
            with h5py.File(self.run_job(ranks, job) / "scores.h5") as file:
                scores.append(file["documents/log_prob"][:])
                tops.append(file["distributions/ids"][:])
            job = self.job(f"evaluate-{ranks}.toml", job={"kind": "evaluate"}, parallel=SHARDED)
            with h5py.File(self.run_job(ranks, job) / "metrics.h5") as metrics:
                totals.append(metrics["evaluate/total_loss"][0])
        self.assertEqual(answers[1:], [answers[0]] * 2)
        self.assertLess(numpy.ptp(totals), 1e-5)
        for found in scores[1:]:
            numpy.testing.assert_allclose(found, scores[0], rtol=1e-5)
        for found in tops[1:]:
            self.assertGreater((found == tops[0]).mean(), 0.99)

    def test_draws_the_tokens_that_one_rank_draws(self):
        documents = self.write_documents(FIXTURE)
        found = []
        for ranks, batch in ((1, 2), (2, 2), (3, 1)):  # two of the last have no sequence
            job = self.job(f"draws-{ranks}.toml", job={"kind": "score"}, data={"tokens": documents}, train={"batch_sequences": batch},
                           score={"distribution": "sampled", "samples": 20, "temperature": 1.5}, parallel=SHARDED)
            with h5py.File(self.run_job(ranks, job) / "scores.h5") as file:
                found.append({name: file["distributions"][name][:] for name in file["distributions"]})
        self.assertEqual(found[0].keys(), found[1].keys())
        for other in found[1:]:
            for name, expected in found[0].items():
                self.assertEqual(other[name].shape, expected.shape)
                self.assertGreater((other[name] == expected).mean(), 0.99, name)


class ByPlan(VocabularyTest):
    def planned(self, ranks, *words, vocabulary="auto"):
        config = self.directory / "config.json"
        config.write_text(json.dumps(json.loads((FIXTURES / "qwen3-moe-tiny/config.json").read_text()) | {"vocab_size": 20000}))
        result = program.sluice("plan", config, "--ranks", ranks, "--json", "--set", f"parallel.vocabulary={vocabulary}", *words)
        self.expect(result, 0)
        return [rank["sent_bytes"]["vocabulary"] for rank in json.loads(result.output)["ranks"]]

    def test_takes_what_sends_fewer_bytes(self):
        words = ["--set", "train.batch_sequences=3", "--set", "data.sequence_length=64"]
        few = {choice: self.planned(3, *words, vocabulary=choice) for choice in ("auto", "gathered", "sharded")}
        self.assertEqual(few["auto"], few["sharded"])
        self.assertLess(sum(few["sharded"]), 0.1 * sum(few["gathered"]))
        words = ["--set", "train.batch_sequences=300", "--set", "data.sequence_length=1024"]
        many = {choice: self.planned(3, *words, vocabulary=choice) for choice in ("auto", "gathered", "sharded")}
        self.assertEqual(many["auto"], many["gathered"])
        self.assertGreater(sum(many["sharded"]), sum(many["gathered"]))


    def test_takes_what_fits_where_the_other_sends_fewer_bytes_but_does_not(self):
        model = self.directory / "model"
        model.mkdir()
        config = json.loads((FIXTURES / "qwen3-moe-tiny/config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"vocab_size": 10000, "hidden_size": 256}))
        job = self.job("wide.toml", model={"path": model, "init": "random"}, train={"steps": 1, "batch_sequences": 36},
                       data={"tokens": FIXTURES / "moby-dick.tokens.h5", "sequence_length": 512})

        def settings(vocabulary, limit):
            return "--set", f"parallel.vocabulary={vocabulary}", "--set", f"memory.limit={limit}"

        def peak(vocabulary):
            result = program.sluice("plan", job, "--ranks", 3, "--json", *settings(vocabulary, "1TiB"))
            self.expect(result, 0)
            return max(rank["peak_bytes"] for rank in json.loads(result.output)["ranks"])

        gathered, sharded = peak("gathered"), peak("sharded")
        self.assertEqual(peak("auto"), gathered)
        middle = (gathered + sharded) // 2 * 10 // 9  # of which a plan may take nine tenths
        refused = run_job(3, job, *settings("sharded", "64MiB"))
        limit = middle + program.program_bytes(64 << 20, refused.output)
        run = run_job(3, job, *settings("auto", f"{limit}B"))
        self.expect(run, 0, "vocabulary: sharded", "memory is short")
        (line,) = (line for line in run.output.splitlines() if "vocabulary: sharded" in line)
        self.expect(program.sluice("plan", job, "--ranks", 3, "--memory", f"{middle}B"), 0, line.strip())


if __name__ == "__main__":
    unittest.main()
