"""Training on pairs of answers: job.kind = "prefer".

    prefer_test.py [Reference | Learning | Refusals]...
"""
import math
import unittest

import h5py
import numpy
import program
from program import FIXTURES, sluice
from saving import SavingTest
from suite import run_job

PAIRS = FIXTURES / "preferences/qwen3_5-moe.h5"
ADAPTER, BASE = FIXTURES / "lora/qwen3_5-moe", FIXTURES / "qwen3_5-moe-tiny"
MARKER, STEPS = 7, 8
METRICS = ["rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected"]


class PreferTest(SavingTest):
    def prefer(self, name="job.toml", **changes):
        """A job of one batch of all pairs of the fixture a step, with a new adapter."""
        tables = {"job": {"kind": "prefer"}, "model": {"path": BASE}, "data": {"tokens": PAIRS, "sequence_length": 32},
                  "lora": {"rank": 4, "targets": ["all-linear"]}, "train": {"steps": 3}, "optimizer": {"eps": 1e-8}, "prefer": {"beta": 0.5}}
        for table, keys in changes.items():
            tables[table] = {} if keys is None else tables.get(table, {}) | keys
        return self.job(name, **tables)

    def metrics(self, job, *names):
        with h5py.File(self.output_of(job) / "metrics.h5") as file:
            return {name: file[name][:] for name in names}


class Reference(PreferTest):
    """What TRL computes of the same pairs (tests/fixtures/make_preferences.py), by the program from end to end."""

    def expect_trl(self, run, job):
        with h5py.File(PAIRS) as file:
            expected = {name: file[f"{run}/train/{name}"][:] for name in ["loss", "grad_norm", *METRICS]}
        found = self.metrics(job, "train/loss", "train/grad_norm", *METRICS)
        for name, values in expected.items():
            numbers = found.get(name, found.get(f"train/{name}"))
            bounds = numpy.array([1e-5, 1e-4, 1e-4]) if name != "grad_norm" else 1e-4
            self.assertTrue((abs(numbers - values) <= bounds * numpy.maximum(1, abs(values))).all(), (run, name, numbers, values))

    def run_of(self, run, ranks, **changes):
        with h5py.File(PAIRS) as file:
            prefer = {key: value.item() if hasattr(value, "item") else value for key, value in file[run].attrs.items()}
            rate = float(file.attrs["learning_rate"])
        is_whole = prefer["loss"] == "orpo"
        lora = None if is_whole else {"rank": 0, "targets": [], "start": ADAPTER}
        job = self.prefer(f"{run}{ranks}.toml", lora=lora, prefer=prefer | ({} if is_whole else {"reference": "base"}),
                          optimizer={"learning_rate": rate}, **changes)
        self.run_job(job, ranks)
        self.expect_trl(run, job)

    def test_one_rank(self):
        self.run_of("sigmoid", 1, train={"micro_batch_sequences": 2})
        self.run_of("orpo", 1)

    def test_two_ranks(self):
        self.run_of("ipo", 2, train={"micro_batch_sequences": 3})
        self.run_of("orpo", 2, parallel={"expert_parallel": 1})

    def test_three_ranks(self):
        self.run_of("sigmoid_norm", 3)
        self.run_of("sft", 3, parallel={"expert_parallel": 1})
        self.run_of("hinge", 3, train={"recompute": "none"})


class Learning(PreferTest):
    def write_preferences(self, name, seed, pairs=24):
        """Answers that end in a marker are preferred to others."""
        random = numpy.random.default_rng(seed)
        documents, mask = [], []
        for _ in range(pairs):
            prompt = random.integers(10, 200, random.integers(2, 6)).tolist()
            answer = random.integers(10, 200, random.integers(1, 5)).tolist()
            for end in (MARKER, int(random.integers(10, 200))):
                documents.append(prompt + answer + [end])
                mask += [0] * len(prompt) + [1] * (len(answer) + 1)
        path = self.directory / name
        with h5py.File(path, "w") as file:
            file["tokens"] = numpy.concatenate(documents).astype(numpy.int32)
            file["document_starts"] = numpy.cumsum([0] + [len(document) for document in documents[:-1]])
            file["loss_mask"] = numpy.array(mask, dtype=numpy.uint8)
            file["pairs"] = numpy.arange(2 * pairs).reshape(-1, 2)
        return path

    def learning(self, name="job.toml", **changes):
        tokens = self.directory / "pairs.h5"
        tables = {"data": {"tokens": tokens if tokens.exists() else self.write_preferences("pairs.h5", 1), "sequence_length": 48, "pack": True},
                  "train": {"steps": 12, "batch_sequences": 6}, "optimizer": {"learning_rate": 0.01}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        return self.prefer(name, **tables)

    def test_what_is_preferred_is_learnt_and_holds_for_pairs_that_were_not_seen(self):
        held_out = self.write_preferences("held-out.h5", 2)
        for ranks in (1, 2, 3):
            job = self.learning(f"{ranks}.toml", evaluate={"tokens": held_out, "every_steps": 6})
            result = self.run_job(job, ranks)
            self.expect(result, 0, "margin 0.0000", "accuracy 100 %", "held out 0.")
            found = self.metrics(job, "train/loss", "train/held_out_loss", *METRICS)
            self.assertAlmostEqual(found["train/loss"][0], math.log(2), delta=1e-12)
            self.assertEqual(found["rewards/margins"][0], 0)
            self.assertEqual(found["rewards/accuracies"][-1], 1)
            self.assertGreater(found["rewards/margins"][-1], 0.5)
            held_out_losses = found["train/held_out_loss"][:, 0]
            self.assertLess(held_out_losses[11], held_out_losses[5])
            self.assertLess(held_out_losses[11], 0.5)

    def test_a_resumed_run_has_the_bits_of_one_that_was_never_killed(self):
        whole, cut, _ = self.whole_and_cut(5, make=self.learning, train={"steps": STEPS})
        resumed = self.run_job(cut)
        self.expect(resumed, 0, "resume    from step 4")
        self.assertEqual(self.losses(cut), self.losses(whole))
        self.expect_same_files(self.step(whole, STEPS), self.step(cut, STEPS))

    def test_that_nothing_is_trained_is_told_after_two_updates(self):
        job = self.learning(optimizer={"learning_rate": 1e-30}, train={"steps": 4})
        self.expect(self.run_job(job, 2), 0, "step 3: after 2 updates the margin of every pair is still exactly 0")

    def test_the_memory_of_the_reference_is_planned(self):
        job = self.learning()
        without = sluice("plan", self.learning("orpo.toml", prefer={"loss": "orpo"}), "--ranks", "2", "--json")
        with_reference = sluice("plan", job, "--ranks", "2", "--json")
        self.expect(without, 0)
        self.expect(with_reference, 0)
        self.assertNotEqual(without.output, with_reference.output)


class Refusals(PreferTest):
    def expect_refused(self, status, *parts, **changes):
        job = self.prefer(**changes)
        self.expect(sluice("check", job), status, *parts)

    def test_of_what_has_no_reference(self):
        self.expect_refused(78, "prefer.reference", "lora.rank", "orpo", lora=None)
        self.expect_refused(78, "prefer.reference", "lora.start", '"base"', lora={"rank": 0, "targets": [], "start": ADAPTER})

    def test_of_settings_that_do_not_go_together(self):
        self.expect_refused(78, "prefer.label_smoothing", prefer={"loss": "ipo", "label_smoothing": 0.1})
        self.expect_refused(78, "lora.dropout", lora={"dropout": 0.1, "targets": ["linear-modules"]})
        self.expect_refused(78, "data.answer", data={"answer": "chosen"})

    def test_of_tokens_without_pairs(self):
        self.expect_refused(65, "pairs", data={"tokens": FIXTURES / "moby-dick.tokens.h5"})

    def test_of_pairs_that_are_longer_than_a_sequence(self):
        self.expect_refused(65, "sequence_length", data={"sequence_length": 12})

    def test_of_a_run_of_another_kind(self):
        job = self.prefer()
        self.run_job(job, 2)
        self.expect(run_job(2, job, "--set", "train.steps=5", "--set", "job.kind=train"), 78, "job.kind")


if __name__ == "__main__":
    unittest.main()
