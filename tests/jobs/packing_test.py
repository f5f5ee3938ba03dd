"""Documents packed into sequences: transformers' numbers on the same conversations unpacked, and the same batches however
the job is run.

    packing_test.py [Conversations | Batches | Documents]...
"""
import functools
import unittest

import h5py
import numpy

from program import FIXTURES, JobTest, reference_job, sluice
from suite import run_job
from saving import STEPS, SavingTest

PACKED = {"pack": True, "order": "shuffle"}


class Conversations(JobTest):
    """A step takes all conversations of the fixture, packed; transformers took each alone."""

    def compare(self, model, ranks, coefficient=0.0, **changes):
        fixture = FIXTURES / "conversations" / model
        with h5py.File(fixture / "reference.h5") as reference:
            sequences = int(reference.attrs["sequences"])
        tables = {"data": PACKED | {"tokens": fixture / "reference.h5"},
                  "train": {"batch_sequences": sequences, "micro_batch_sequences": 2, "aux_loss_coefficient": coefficient}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        job = self.write_job(f"{model}-{ranks}.toml", **reference_job(model, **tables))
        self.expect(run_job(ranks, job), 0, "20 documents packed")
        output = self.output_of(job)
        self.expect_reference(output, fixture)
        with h5py.File(output / "metrics.h5") as metrics, h5py.File(fixture / "reference.h5") as reference:
            tokens = len(reference["tokens"])
            self.assertEqual(set(metrics["train/tokens"][:]), {tokens})
            numpy.testing.assert_allclose(metrics["train/filled"][:], tokens / (48 * sequences))
            numpy.testing.assert_allclose(metrics["train/epochs"][:, 0], numpy.arange(1, 9))
            chosen = metrics["moe/expert_tokens"][:].sum(axis=2)
            self.assertEqual(len(set(chosen.flatten())), 1)
            self.assertEqual(chosen.flat[0] % tokens, 0, "padding chooses no expert")

    def compare_at_all_ranks(self, model, coefficient=0.0, **changes):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.compare(model, ranks, coefficient, **changes)

    def test_with_the_load_balancing_loss(self):
        self.compare_at_all_ranks("qwen3-moe-tiny", 0.01)
        for model in ("qwen3_5-moe-tiny", "gpt_oss-tiny"):
            with self.subTest(model=model):
                self.compare(model, 2, 0.01)

    def test_in_other_windows_and_orders(self):
        self.compare("qwen3-moe-tiny", 2, data={"order": "sequential", "pack_window": 100})

    def test_with_gathered_experts(self):
        for model in ("gpt_oss-tiny", "deepseek_v3-tiny"):
            with self.subTest(model=model):
                self.compare(model, 3, parallel={"expert_parallel": 1})


# A block of each kind that mixes tokens: nothing of a document reaches the one behind it.
MIXERS = {"attention": "qwen3-moe-tiny", "recurrent_layers": "qwen3_5-moe-tiny", "windows_and_sinks": "gpt_oss-tiny",
          "latent_attention": "deepseek_v3-tiny", "latent_attention_without_a_rank_of_queries": "glm4_moe_lite-tiny"}
for mixer, mixing_model in MIXERS.items():
    setattr(Conversations, f"test_{mixer}", functools.partialmethod(Conversations.compare_at_all_ranks, mixing_model))


class PackingTest(SavingTest):
    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(3)

    def write_documents(self, name, lengths, mask=True):
        """Like chats: turns that are learnt and turns that are not."""
        path = self.directory / name
        with h5py.File(path, "w") as file:
            file["tokens"] = self.random.integers(0, 256, sum(lengths), dtype=numpy.int32)
            file["document_starts"] = numpy.cumsum([0, *lengths[:-1]])
            if mask:
                file["loss_mask"] = (numpy.cumsum(self.random.random(sum(lengths)) < 0.2) % 2).astype(numpy.uint8)
        return path

    def lengths(self, count, shortest=2, longest=22):
        return [int(length) for length in self.random.integers(shortest, longest, count)]


class Batches(PackingTest):
    def mixed(self, name, **changes):
        """Two files: an epoch of the first has some 24 sequences in five windows, of the second some 8 in two."""
        if not hasattr(self, "files"):
            self.files = [self.write_documents("a.h5", self.lengths(100)), self.write_documents("b.h5", self.lengths(34), mask=False)]
        sources = [{"tokens": path, "weight": weight} for path, weight in zip(self.files, (3, 1))]
        data = PACKED | {"tokens": "", "source": sources, "pack_window": 20}
        return self.job(name, data=data, **changes)

    def expect_near(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(found[step], loss, delta=1e-4)

    def test_are_the_same_for_any_number_of_ranks_and_for_a_run_that_was_killed(self):
        """Killed behind step 5, resumed from step 4: 18 and 6 sequences are taken, in the middle of a window and of an epoch of
        both files, and the epochs after them are other ones."""
        whole, cut, result = self.whole_and_cut(5, make=self.mixed)
        alone = self.mixed("alone.toml")
        self.expect(result, 0, "2 sources", "a.h5: ", "100 documents", "34 documents")
        resumed = self.run_job(cut, 2)
        self.expect_resumed(resumed, 4, f"step 5/{STEPS}")
        self.expect_near(self.losses(cut), self.losses(whole))
        self.run_job(alone, 1)
        self.expect_near(self.losses(alone), self.losses(whole))
        with h5py.File(self.output_of(whole) / "metrics.h5") as first, h5py.File(self.output_of(cut) / "metrics.0001.h5") as second:
            self.assertEqual(second["train/tokens"][:].tolist(), first["train/tokens"][4:].tolist())
            numpy.testing.assert_allclose(second["train/epochs"][:], first["train/epochs"][4:])
            epochs = first["train/epochs"][:]
        self.assertTrue((0 < epochs[3] % 1).all() and (epochs[-1] > 1).all(), epochs)

    def test_of_other_settings_are_not_gone_on_with(self):
        job = self.mixed("job.toml", train={"steps": 2})
        self.run_job(job, 2)
        for setting, text in (("data.pack=false", "data.pack is false, and was true"), ("data.pack_window=21", "data.pack_window is 21"),
                              ("data.long_documents=cut", 'data.long_documents is "cut"')):
            result = self.run_job(job, 2, ["--set", "train.steps=3", "--set", setting], status=78)
            self.expect(result, 78, text)


class Documents(PackingTest):
    def test_of_a_quarter_of_a_sequence_fill_97_percent(self):
        path = self.write_documents("chats.h5", self.lengths(4000))
        job = self.job(data=PACKED | {"tokens": path}, train={"steps": 3, "batch_sequences": 60})
        self.run_job(job, 2)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            self.assertGreater(metrics["train/filled"][:].min(), 0.97)
            self.assertEqual(metrics["train/tokens"][:].tolist(), (metrics["train/filled"][:] * 60 * 48).round().tolist())

    def test_that_are_longer_than_a_sequence(self):
        path = self.write_documents("long.h5", [10, 100, 48, 49, 20])
        job = self.job(data=PACKED | {"tokens": path}, train={"steps": 1, "batch_sequences": 5})
        for rule, text, sequences in (("split", "packed 94.2 % full; longer than a sequence: 2, split", 5), ("cut", "packed 90.6 % full; longer than a sequence: 2, cut", 4),
                                      ("leave_out", "packed 81.2 % full; longer than a sequence: 2, left out", 2)):
            with self.subTest(rule=rule):
                arguments = ["--set", f"data.long_documents={rule}", "--set", f"train.batch_sequences={sequences}", "--set", "job.overwrite=true"]
                for command in (lambda: sluice("check", job, *arguments), lambda: self.run_job(job, 2, arguments)):
                    self.expect(command(), 0, f"5 documents {text}")

    def test_are_needed_by_check_as_by_run(self):
        plain = FIXTURES / "moby-dick.tokens.h5"
        rows = FIXTURES / "qwen3-moe-tiny/reference.h5"
        job = self.job(data=PACKED | {"tokens": plain})
        for command in ("check", "run"):
            self.expect(sluice(command, job), 65, "data.pack", "document_starts", "sluice tokenize")
            self.expect(sluice(command, job, "--set", f"data.tokens={rows}"), 65, "data.pack", "has rows")

    def test_are_evaluated_one_after_the_other_while_packed_ones_are_trained_on(self):
        train, held_out = self.write_documents("train.h5", self.lengths(50)), self.write_documents("held.h5", self.lengths(30))
        job = self.job(data=PACKED | {"tokens": train}, train={"steps": 2}, evaluate={"tokens": [str(held_out)], "every_steps": 2})
        self.expect(self.run_job(job, 2), 0, "held out")


if __name__ == "__main__":
    unittest.main(verbosity=2)
