"""job.kind = "score": log-probabilities are transformers', by document and by place, however documents are packed, and whatever ends the job."""
import json
import os
import shutil
import signal
import sys
import unittest

import h5py
import numpy

import program
from program import JobTest, sluice
from suite import run_job

FIXTURE = program.FIXTURES / "qwen3_5-moe-tiny"


def log_probs(logits, targets):
    """Of each target, in float64, by the logits before it."""
    logits = logits.astype(numpy.float64)
    logits -= logits.max(1, keepdims=True)
    return logits[numpy.arange(len(targets)), targets] - numpy.log(numpy.exp(logits).sum(1))


class ScoreTest(JobTest):
    def setUp(self):
        super().setUp()
        with h5py.File(FIXTURE / "reference.h5") as reference:
            self.rows = reference["tokens"][:].astype(numpy.int32)
            logits = reference["logits"][:]
            self.loss = float(reference["loss"][()])
        self.first = log_probs(logits, self.rows[0, 1:])
        self.first_greedy = int((logits.argmax(1) == self.rows[0, 1:]).sum())
        self.lengths = [49] * 6 + [5, 1, 30, 2, 17, 40]
        self.tokens = numpy.concatenate([self.rows.ravel(), self.rows.ravel()[: sum(self.lengths[6:])]])
        self.starts = numpy.concatenate([[0], numpy.cumsum(self.lengths)[:-1]])
        self.mask = numpy.ones(len(self.tokens), numpy.uint8)
        self.mask[self.starts[8]: self.starts[8] + 20] = 0  # a prompt
        self.file = self.directory / "tokens.h5"
        with h5py.File(self.file, "w") as file:
            file.update({"tokens": self.tokens, "document_starts": self.starts, "loss_mask": self.mask})

    def job(self, name="job.toml", **changes):
        tables = {
            "job": {"kind": "score"},
            "model": {"path": FIXTURE, "dtype": "float32"},
            "data": {"tokens": self.file, "sequence_length": 64},
            "train": {"batch_sequences": 2},
            "score": {"tokens": True},
        }
        for table, keys in changes.items():
            tables.setdefault(table, {}).update(keys)
        return self.write_job(name, **tables)

    def scores_in(self, directory):
        with h5py.File(directory / "scores.h5") as file:
            self.assertEqual(file.attrs["complete"], 1)
            return {f"{group}/{name}": file[group][name][:] for group in file for name in file[group]}

    def score(self, ranks, job, *parts):
        self.expect(run_job(ranks, job), 0, *parts)
        return self.scores_in(self.output_of(job))

    def expect_near(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        for name in one:
            numpy.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-5 * 64, err_msg=name)
        numpy.testing.assert_allclose(one["tokens/log_prob"], other["tokens/log_prob"], rtol=0, atol=1e-5)

    def expect_same(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        for name in one:
            self.assertEqual(one[name].tobytes(), other[name].tobytes(), name)


class Score(ScoreTest):
    def test_is_that_of_transformers_at_any_rank_count_and_packing(self):
        one = self.score(1, self.job("one.toml"), "scores    ", "12 documents")
        tokens, sums, targets = one["tokens/log_prob"], one["documents/log_prob"], one["documents/targets"]
        numpy.testing.assert_allclose(tokens[1:49], self.first, rtol=0, atol=1e-5)
        self.assertAlmostEqual(-sums[:6].sum() / targets[:6].sum(), self.loss, delta=1e-5)
        begins = numpy.zeros(len(self.tokens), bool)
        begins[self.starts] = True
        self.assertEqual(numpy.isnan(tokens).tolist(), (begins | (self.mask == 0)).tolist())
        self.assertEqual(targets.tolist(), [48] * 6 + [4, 0, 10, 1, 16, 39])
        greedy = one["documents/greedy"]
        self.assertEqual(greedy[0], self.first_greedy)
        self.assertTrue((0 <= greedy).all() and (greedy <= targets).all() and greedy[7] == 0)
        for number, (start, length) in enumerate(zip(self.starts, self.lengths)):
            self.assertAlmostEqual(sums[number], numpy.nansum(tokens[start:start + length], dtype=float), delta=1e-4)
        # A document that others begin with has their log-probabilities, whatever it is packed with.
        numpy.testing.assert_allclose(tokens[self.starts[6] + 1:][:4], tokens[1:5], rtol=0, atol=1e-5)
        for ranks, name, changes in ((2, "two", {}), (3, "three", {"train": {"batch_sequences": 5, "micro_batch_sequences": 2}}),
                                     (2, "wide", {"data": {"sequence_length": 128, "pack_window": 3}})):
            self.expect_near(self.score(ranks, self.job(f"{name}.toml", **changes)), one)

    def test_of_documents_that_are_too_long_is_refused_cut_or_left_out(self):
        refused = self.job("refused.toml", data={"sequence_length": 40})
        for result in (run_job(1, refused), sluice("check", refused)):
            self.expect(result, 65, "document 0", "49 tokens", "data.long_documents")
        whole = self.score(1, self.job("whole.toml"))
        cut = self.score(2, self.job("cut.toml", data={"sequence_length": 40, "long_documents": "cut"}))
        self.assertEqual(cut["documents/targets"].tolist(), [40] * 6 + whole["documents/targets"][6:].tolist())
        kept = ~numpy.isnan(cut["tokens/log_prob"])
        self.assertEqual(kept[:49].tolist(), [False] + [True] * 40 + [False] * 8)
        numpy.testing.assert_allclose(cut["tokens/log_prob"][kept], whole["tokens/log_prob"][kept], rtol=0, atol=1e-5)
        left = self.score(1, self.job("left.toml", data={"sequence_length": 40, "long_documents": "leave_out"}, score={"tokens": False}))
        self.assertEqual(left["documents/targets"].tolist(), [-1] * 6 + whole["documents/targets"][6:].tolist())
        self.assertTrue(numpy.isnan(left["documents/log_prob"][:6]).all())
        self.assertNotIn("tokens/log_prob", left)

    def test_is_that_of_transformers_and_peft_in_other_families(self):
        for number, (reference, model) in enumerate((("qwen3-moe-tiny", {}), ("deepseek_v3-tiny", {}), ("gpt_oss-tiny", {}),
                                                     ("lora/qwen3-moe", {"adapter": program.FIXTURES / "lora/qwen3-moe"}))):
            path = program.FIXTURES / reference
            with h5py.File(path / "reference.h5") as file:
                rows, expected, loss = file["tokens"][:], log_probs(file["logits"][:], file["tokens"][0, 1:]), float(file["loss"][()])
            with h5py.File(self.directory / f"{number}.h5", "w") as file:
                file.update({"tokens": rows.ravel(), "document_starts": numpy.arange(0, rows.size, rows.shape[1])})
            base = program.FIXTURES / "qwen3-moe-tiny" if "adapter" in model else path
            found = self.score(1 + number % 3, self.job(f"{number}.toml", model={"path": base, **model}, data={"tokens": self.directory / f"{number}.h5"}))
            numpy.testing.assert_allclose(found["tokens/log_prob"][1:rows.shape[1]], expected, rtol=0, atol=1e-5, err_msg=reference)
            self.assertAlmostEqual(-found["documents/log_prob"].sum() / found["documents/targets"].sum(), loss, delta=1e-5, msg=reference)

    def test_of_a_base_read_in_place_is_that_of_one_in_memory(self):
        base = program.FIXTURES / "qwen3-moe-tiny-fp8-blocks"
        changes = {"model": {"path": base, "dtype": "bfloat16", "frozen_format": "stored"}}
        held = self.score(2, self.job("held.toml", **changes))
        read = self.score(2, self.job("read.toml", **changes, memory={"offload": "source"}, load={"readers": "all"}))
        self.expect_same(read, held)

    def test_of_pairs_is_that_of_their_documents(self):
        plain = self.score(1, self.job("plain.toml"))
        with h5py.File(self.file, "r+") as file:
            file["pairs"] = numpy.array([[0, 1], [8, 6]])
        self.expect_near(self.score(2, self.job("pairs.toml")), plain)


def distributions(logits, temperature=1):
    """Log-probabilities of every token, in float64."""
    logits = logits.astype(numpy.float64) / temperature
    logits -= logits.max(1, keepdims=True)
    return logits - numpy.log(numpy.exp(logits).sum(1, keepdims=True))


class Distributions(ScoreTest):
    def setUp(self):
        super().setUp()
        with h5py.File(FIXTURE / "reference.h5") as reference:
            self.logits = reference["logits"][:]

    def test_of_the_top_are_those_of_transformers(self):
        for number, (ranks, top, temperature) in enumerate(((1, 5, 1), (2, 8, 2), (3, self.logits.shape[1], 1))):
            found = self.score(ranks, self.job(f"{number}.toml", score={"distribution": "top", "top": top, "temperature": temperature}))
            expected = distributions(self.logits, temperature)
            ids, log_probs = found["distributions/ids"][1:49], found["distributions/log_probs"][1:49]
            self.assertEqual(ids.shape, (48, top))
            self.assertTrue((numpy.diff(log_probs, axis=1) <= 0).all())
            numpy.testing.assert_allclose(log_probs, numpy.take_along_axis(expected, ids, 1), rtol=0, atol=1e-5)
            numpy.testing.assert_allclose(log_probs, -numpy.sort(-expected, 1)[:, :top], rtol=0, atol=1e-5)
            rest = 1 - numpy.exp(numpy.take_along_axis(expected, ids, 1)).sum(1)
            numpy.testing.assert_allclose(numpy.exp(found["distributions/rest"][1:49]), rest, rtol=0, atol=1e-6)
            none = numpy.isnan(found["tokens/log_prob"])
            self.assertTrue((found["distributions/ids"][none] == -1).all() and numpy.isnan(found["distributions/rest"][none]).all())
            self.assertTrue((found["distributions/ids"][~none] >= 0).all())
        self.assertEqual(numpy.unique(ids[0]).tolist(), list(range(top)), "the whole vocabulary")

    def test_that_are_sampled_have_the_frequencies_of_the_exact_one(self):
        samples, temperature, seeds = 255, 1.5, 4
        expected = numpy.exp(distributions(self.logits, temperature))
        counts = numpy.zeros_like(expected)
        for seed in range(seeds):
            found = self.score(1, self.job(f"{seed}.toml", score={"distribution": "sampled", "samples": samples, "temperature": temperature, "seed": seed}))
            ids, drawn = found["distributions/ids"], found["distributions/counts"].astype(int)
            none = numpy.isnan(found["tokens/log_prob"])
            self.assertEqual(drawn.sum(1).tolist(), numpy.where(none, 0, samples).tolist())
            self.assertTrue(((drawn > 0) == (ids >= 0)).all())
            for row in range(48):
                there = ids[1 + row] >= 0
                self.assertEqual(len(set(ids[1 + row][there])), there.sum(), "each token is named once")
                counts[row, ids[1 + row][there]] += drawn[1 + row][there]
        draws = samples * seeds
        # Pearson's statistic, whose mean is its degrees of freedom f and whose variance is near 2 f, over tokens of 5 draws or more.
        often = expected * draws >= 5
        pearson = ((counts - draws * expected) ** 2 / (draws * expected))[often].sum()
        freedom = often.sum()
        self.assertLess(abs(pearson - freedom), 5 * numpy.sqrt(2 * freedom))

    def test_that_are_sampled_are_the_same_in_every_layout(self):
        changes = {"score": {"distribution": "sampled", "samples": 12, "seed": 3}}
        one = self.score(1, self.job("one.toml", **changes))
        for ranks in (2, 3):
            for vocabulary, expect in (("gathered", self.expect_same), ("sharded", self.expect_same_draws)):
                parallel = {"expert_parallel": 1, "vocabulary": vocabulary}
                expect(self.score(ranks, self.job(f"{ranks}-{vocabulary}.toml", **changes, parallel=parallel)), one)
        packed = self.score(2, self.job("wide.toml", **changes, data={"sequence_length": 128}, train={"micro_batch_sequences": 2}))
        self.expect_same_draws(packed, one)

    def expect_same_draws(self, found, expected):
        moved = (found["distributions/ids"] != expected["distributions/ids"]).any(1).mean()
        self.assertLess(moved, 0.02, "of the tokens some draw was moved by rounding")
        numpy.testing.assert_allclose(found["tokens/log_prob"], expected["tokens/log_prob"], rtol=0, atol=1e-5)

    def test_of_more_tokens_than_the_vocabulary_has_are_refused(self):
        job = self.job(score={"distribution": "top", "top": self.logits.shape[1] + 1})
        self.expect(sluice("check", job), 78, "score.top")

    def test_are_told_by_their_bytes(self):
        for changes, of_token in (({"distribution": "top", "top": 5}, 48), ({"distribution": "sampled", "samples": 5}, 29)):
            job = self.job(score={"tokens": False, **changes})
            self.expect(sluice("check", job), 0, f"{(24 * 12 + of_token * len(self.tokens)) / 1e3:.2f} kB")
            self.expect(sluice("plan", job, "--ranks", 2), 0, f"and {of_token} a token")


class Ended(ScoreTest):
    def test_anywhere_it_goes_on_to_the_same_bits(self):
        kept = {"distribution": "sampled", "samples": 7}
        faults = [program.fault(site, 0, number, "copy") for site in ("score.step", "score.commit") for number in range(1, 6)]
        whole = self.job("whole.toml", data={"sequence_length": 49}, train={"batch_sequences": 1}, score=kept)
        result = run_job(2, whole, fault=",".join(faults))
        self.expect(result, 0)
        expected = self.scores_in(self.output_of(whole))
        resumed = 0
        for fault in faults:
            site, rank, number, _ = fault.split(":")
            name = f"whole-{site}-{rank}-{number}.toml"
            job = self.job(name, data={"sequence_length": 49}, train={"batch_sequences": 1}, score=kept)
            result = run_job(2, job)
            self.expect(result, 0)
            resumed += "resume    behind sequence" in result.output
            self.expect_same(self.scores_in(self.output_of(job)), expected)
        self.assertEqual(resumed, 8, "all but those of the first step")

    def test_on_other_ranks_it_goes_on_to_the_same_numbers(self):
        whole = self.job("whole.toml", train={"batch_sequences": 1})
        self.expect(run_job(1, whole, fault=program.fault("score.step", 0, 4, "copy")), 0)
        job = self.job("whole-score.step-0-4.toml", train={"batch_sequences": 1})
        targets = 48 * 6 + 4 + 10 + 1 + 16 + 39
        self.expect(run_job(3, job), 0, "resume    behind sequence 3", f"{targets} targets of 12 documents")
        self.expect_near(self.scores_in(self.output_of(job)), self.scores_in(self.output_of(whole)))

    def test_a_batch_that_takes_long_ends_before_the_job_that_was_asked_to_stop(self):
        job = self.job(train={"batch_sequences": 1})
        running = program.start_mpirun(2, *program.with_fault("score.step", 0, "2+", "delay"), "run", job)
        status = self.output_of(job) / "status.json"
        program.wait_until(lambda: status.exists() and json.loads(status.read_text()).get("sequence", 0) >= 1, "a batch")
        ranks = program.run("pgrep", "-f", f"sluice-train run.*{self.directory.name}").output.split()
        os.kill(int(ranks[-1]), signal.SIGTERM)
        self.expect(running.finish(), 75)
        self.assertEqual(json.loads(status.read_text())["exit_code"], 75)
        self.expect(run_job(2, job), 0, "resume    behind sequence")

    def test_it_is_not_gone_on_with_for_another_model_or_other_tokens(self):
        job = self.job("job.toml")
        self.score(1, job)
        self.expect(run_job(1, job), 0)  # there is nothing left to do
        copy = self.directory / "model"
        shutil.copytree(FIXTURE, copy)
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-3}))
        for refused in (run_job(1, self.job("job.toml", model={"path": copy})), sluice("check", self.directory / "job.toml")):
            self.expect(refused, 78, "model_digest", "job.overwrite", "[job.output_taken]")
        with h5py.File(self.file, "r+") as file:
            file["tokens"][3] += 1
        self.expect(run_job(1, self.job("job.toml")), 78, "tokens_digest")
        self.score(1, self.job("job.toml", job={"overwrite": True}))


class Told(ScoreTest):
    def test_the_bytes_by_check_and_plan(self):
        job = self.job()
        tokens = 24 * len(self.lengths) + 4 * len(self.tokens)
        self.expect(sluice("check", job), 0, "scores    ", "12 documents", f"{tokens / 1e3:.2f} kB")
        self.expect(sluice("plan", job, "--ranks", 2), 0, "24 bytes a document, and 4 a token")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
