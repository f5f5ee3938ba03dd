"""Training on pairs of answers: job.kind = "prefer".

    prefer_test.py [Reference | Learning | Files | Example | Refusals]...
"""
import json
import math
import shutil
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


def write_preferences(path, seed, pairs=24):
    """Answers that end in a marker are preferred to others."""
    random = numpy.random.default_rng(seed)
    documents, mask = [], []
    for _ in range(pairs):
        prompt = random.integers(10, 200, random.integers(2, 6)).tolist()
        answer = random.integers(10, 200, random.integers(1, 5)).tolist()
        for end in (MARKER, int(random.integers(10, 200))):
            documents.append(prompt + answer + [end])
            mask += [0] * len(prompt) + [1] * (len(answer) + 1)
    with h5py.File(path, "w") as file:
        file["tokens"] = numpy.concatenate(documents).astype(numpy.int32)
        file["document_starts"] = numpy.cumsum([0] + [len(document) for document in documents[:-1]])
        file["loss_mask"] = numpy.array(mask, dtype=numpy.uint8)
        file["pairs"] = numpy.arange(2 * pairs).reshape(-1, 2)
    return path


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
        if run == "whole":  # at first both answers are as good, and rounding tells which is better
            expected["rewards/accuracies"][0] = found["rewards/accuracies"][0]
        for name, values in expected.items():
            numbers = found.get(name, found.get(f"train/{name}"))
            bounds = numpy.array([1e-5] + [1e-4] * (len(values) - 1)) if name != "grad_norm" else 1e-4
            self.assertTrue((abs(numbers - values) <= bounds * numpy.maximum(1, abs(values))).all(), (run, name, numbers, values))

    def run_of(self, run, ranks, train=None, **changes):
        with h5py.File(PAIRS) as file:
            train = {"steps": len(file[f"{run}/train/loss"])} | (train or {})
            prefer = {key: value.item() if hasattr(value, "item") else value for key, value in file[run].attrs.items()}
            rate = float(file.attrs["learning_rate"])
        is_whole = prefer["loss"] == "orpo" or "reference" in prefer
        lora = None if is_whole else {"rank": 0, "targets": [], "start": ADAPTER}
        job = self.prefer(f"{run}{ranks}.toml", lora=lora, prefer=prefer if is_whole else prefer | {"reference": "base"},
                          optimizer={"learning_rate": rate}, train=train, **changes)
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
        self.run_of("whole", 3)


class Learning(PreferTest):
    def learning(self, name="job.toml", **changes):
        tokens = self.directory / "pairs.h5"
        tables = {"data": {"tokens": tokens if tokens.exists() else write_preferences(tokens, 1), "sequence_length": 48, "pack": True},
                  "train": {"steps": 12, "batch_sequences": 6}, "optimizer": {"learning_rate": 0.01}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        return self.prefer(name, **tables)

    def test_what_is_preferred_is_learnt_and_holds_for_pairs_that_were_not_seen(self):
        held_out = write_preferences(self.directory / "held-out.h5", 2)
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


class Files(PreferTest):
    """References that lie in files of scores: those that a job names, and those that it makes before its first step."""

    WHOLE = {"lora": None}
    STARTED = {"lora": {"rank": 0, "targets": [], "start": ADAPTER}}
    STEPS = {"train": {"steps": 3, "batch_sequences": 2}}

    def score(self, name="score.toml", tokens=PAIRS, **changes):
        """A file of scores of the pairs."""
        tables = {"job": {"kind": "score"}, "model": {"path": BASE, "dtype": "float32"}, "data": {"tokens": tokens, "sequence_length": 32}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        job = self.write_job(name, **tables)
        self.expect(run_job(2, job), 0)
        return self.output_of(job) / "scores.h5"

    def compared(self, name, ranks, reference, **changes):
        """Metrics of a run with this reference."""
        prefer = {"beta": 0.5, "reference": reference}
        job = self.prefer(name, prefer=prefer, optimizer={"learning_rate": 2e-3, "eps": 1e-3}, **(self.STEPS | changes))
        self.run_job(job, ranks)
        return self.metrics(job, "train/loss", *METRICS)

    def expect_near(self, found, expected):
        for name, values in expected.items():
            if name != "rewards/accuracies":  # where both answers are as good, rounding tells which is better
                numpy.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)

    def test_of_the_same_weights_have_the_same_numbers(self):
        scores = self.score()
        base = self.compared("base.toml", 1, "base")
        whole = self.compared("whole.toml", 1, "start", **self.WHOLE)
        for ranks in (1, 2, 3):
            self.expect_near(self.compared(f"start{ranks}.toml", ranks, "start"), base)
            self.expect_near(self.compared(f"file{ranks}.toml", ranks, [scores]), base)
            self.expect_near(self.compared(f"whole{ranks}.toml", ranks, scores, **self.WHOLE), whole)
        self.assertNotEqual(whole["train/loss"][1], base["train/loss"][1])

    def test_of_a_started_adapter_are_the_model_with_it_or_without(self):
        with_it = self.score("with.toml", model={"adapter": ADAPTER})
        start = self.compared("start.toml", 2, "auto", **self.STARTED)
        self.expect_near(self.compared("with-file.toml", 3, with_it, **self.STARTED), start)
        self.assertAlmostEqual(start["train/loss"][0], math.log(2), delta=1e-6)
        base = self.compared("base.toml", 2, "base", **self.STARTED)
        self.expect_near(self.compared("without-file.toml", 1, self.score("without.toml"), **self.STARTED), base)
        self.assertNotAlmostEqual(base["train/loss"][0], math.log(2), delta=1e-3)

    def test_are_made_of_held_out_pairs_and_of_each_source_too(self):
        for reference, files in (("start", ["data-0", "data-1", "held-out-0"]), ("base", [])):
            job = self.mixed(f"{reference}.toml", reference)
            self.run_job(job, 2)
            found = self.metrics(job, "train/loss", "train/held_out_loss", *METRICS)
            if files:
                expected = found
                self.assertEqual(sorted(path.stem for path in (self.output_of(job) / "reference").iterdir()), files)
        self.expect_near(found, expected)

    def mixed(self, name, reference, **changes):
        """A job of two token files and a held-out one."""
        tokens = [self.directory / f"{i}.h5" for i in range(3)]
        for i, path in enumerate(tokens):
            if not path.exists():
                write_preferences(path, i, 7 + i)
        tables = {"prefer": {"beta": 0.5, "reference": reference}, "evaluate": {"tokens": tokens[2], "every_steps": 2},
                  "data": {"tokens": "", "source": [{"tokens": path, "weight": 1} for path in tokens[:2]], "sequence_length": 32},
                  "train": {"steps": 4, "batch_sequences": 3}}
        for table, keys in changes.items():
            tables[table] = None if keys is None else tables.get(table, {}) | keys
        return self.prefer(name, **tables)

    def test_made_ones_go_on_where_a_kill_left_them(self):
        faults = [f"{site}:0:{number}:copy" for site in ("score.step", "score.commit") for number in (1, 2, 4)]
        whole = self.mixed("whole.toml", "start", lora=None)
        self.run_job(whole, 2, fault=",".join(faults))
        expected = self.reference_of(whole)
        for fault in faults:
            site, _, number, _ = fault.split(":")
            job = self.mixed(f"whole-{site}-0-{number}.toml", "start", lora=None)
            self.run_job(job, 2)
            self.assertEqual(self.reference_of(job), expected)
            self.assertEqual(self.losses(job), self.losses(whole))

    def reference_of(self, job):
        out = {}
        for path in sorted((self.output_of(job) / "reference").iterdir()):
            with h5py.File(path) as file:
                out[path.name] = [file["documents"][name][:].tobytes() for name in ("log_prob", "targets", "greedy")]
        return out

    def test_a_resumed_run_reads_what_it_made_and_makes_what_more_steps_need(self):
        for name, changes in (("adapter", self.STARTED), ("whole", self.WHOLE)):
            few, many = (self.mixed(f"{name}-{length}.toml", "start", train={"steps": steps}, **changes) for length, steps in (("few", 2), ("many", 4)))
            self.run_job(many, 2)
            self.run_job(few, 2)
            read = self.run_job(few, 2, ["--set", "train.steps=4"])
            self.expect(read, 0, "resume    from step 2", "reference ", "to score")
            self.assertEqual(self.losses(few), self.losses(many))
            self.expect_same_files(self.step(many, 4), self.step(few, 4))
            again = self.run_job(few, 2, ["--set", "train.steps=4", "--set", "checkpoint.resume=2"])
            self.assertNotIn("to score", again.output)

    def test_the_reference_that_auto_chose_may_be_named_in_a_resumed_run(self):
        job = self.prefer(train={"steps": 2})
        self.run_job(job, 2)
        self.expect(run_job(2, job, "--set", "train.steps=3", "--set", "prefer.reference=base"), 0, "resume    from step 2")
        self.expect(run_job(2, job, "--set", "train.steps=4", "--set", "prefer.reference=start"), 78, "prefer.reference")

    def test_that_are_not_of_these_pairs_are_refused_before_a_step(self):
        scores = self.score()

        def changed(name, change):
            path = self.directory / f"{name}.h5"
            path.write_bytes(scores.read_bytes())
            with h5py.File(path, "r+") as file:
                change(file)
            return path

        def set_nan(file):
            file["documents/log_prob"][3] = math.nan

        def end_early(file):
            del file["documents/greedy"]

        other = self.directory / "other-pairs.h5"
        write_preferences(other, 1)
        bad = {
            "tokens": (self.score("other.toml", tokens=other), ["tokens"]),
            "model": (changed("model", lambda file: file.attrs.modify("structure_hash", "0" * 16)), ["structure"]),
            "vocabulary": (changed("vocabulary", lambda file: file.attrs.modify("vocab_size", 7)), ["7 tokens"]),
            "cuts": (self.score("cut.toml", data={"sequence_length": 4, "long_documents": "cut"}), ["targets", "data.long_documents"]),
            "left": (self.score("left.toml", data={"sequence_length": 8, "long_documents": "leave_out"}), ["no score", "data.long_documents"]),
            "nan": (changed("nan", set_nan), ["document 3", "nan"]),
            "part": (changed("part", end_early), ["greedy"]),
            "unfinished": (changed("unfinished", lambda file: file.attrs.modify("complete", 0)), ["not complete"]),
            "missing": (self.directory / "nothing.h5", ["nothing.h5"]),
        }
        bad["short"] = (self.directory / "short.h5", [])
        bad["short"][0].write_bytes(scores.read_bytes()[:-100])
        for name, (path, words) in bad.items():
            job = self.prefer(f"{name}.toml", prefer={"reference": path})
            for result in (sluice("check", job), run_job(2, job)):
                self.expect(result, 65, "prefer.reference", path.name, *words)
                self.assertNotIn("step 1 ", result.output)
        held_out = self.prefer("held.toml", prefer={"reference": scores}, evaluate={"tokens": other, "every_steps": 1})
        self.expect(sluice("check", held_out), 65, "prefer.reference", "other-pairs.h5")
        both = self.prefer("both.toml", prefer={"reference": [scores, bad["tokens"][0]]}, evaluate={"tokens": other, "every_steps": 1})
        for result in (sluice("check", both), run_job(2, both)):
            self.expect(result, 0)


class Example(PreferTest):
    """configs/quickstart-preferences.toml, on a smaller model than the quickstart's."""

    def test_answers_come_to_end_as_the_preferred_ones_do(self):
        example = program.SOURCE / "configs/quickstart-model"
        shape = self.directory / "shape"
        shape.mkdir()
        for name in ("tokenizer.json", "chat_template.jinja"):
            (shape / name).write_text((example / name).read_text())
        config = json.loads((example / "config.json").read_text())
        small = {"hidden_size": 128, "intermediate_size": 128, "moe_intermediate_size": 64, "num_experts": 8, "num_hidden_layers": 2,
                 "num_attention_heads": 2, "num_experts_per_tok": 2}
        (shape / "config.json").write_text(json.dumps(config | small))
        self.expect(sluice("synthesize", shape, self.directory / "model"), 0)
        output = self.directory / "run"
        changes = {"job.output": output, "model.path": self.directory / "model", "data.tokens": example / "preferences.jsonl",
                   "generate.prompts": example / "prompts.jsonl", "generate.every_steps": 2}
        words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
        result = run_job(2, program.SOURCE / "configs/quickstart-preferences.toml", *words)
        self.expect(result, 0, "accuracy 100 %")
        answers = [json.loads(line) for line in (output / "answers.jsonl").read_text().splitlines()]
        ends = {step: [answer["text"].endswith("Aye, sir!") for answer in answers if answer["step"] == step] for step in range(2, 41, 2)}
        self.assertFalse(any(ends[2]))
        learnt = [end for step in range(20, 41, 2) for end in ends[step]]
        self.assertGreater(sum(learnt), 0.7 * len(learnt), answers)  # a model that has read nothing has no better answers


class Refusals(PreferTest):
    def expect_refused(self, status, *parts, **changes):
        job = self.prefer(**changes)
        self.expect(sluice("check", job), status, *parts)

    def test_of_what_has_no_reference(self):
        self.expect_refused(78, "prefer.reference", "lora.rank", '"start"', lora=None, prefer={"reference": "base"})
        self.expect_refused(78, "prefer.reference", "orpo", prefer={"loss": "orpo", "reference": "scores.h5"})

    def test_of_settings_that_do_not_go_together(self):
        self.expect_refused(78, "prefer.label_smoothing", prefer={"loss": "ipo", "label_smoothing": 0.1})
        self.expect_refused(78, "lora.dropout", lora={"dropout": 0.1, "targets": ["linear-modules"]})
        self.expect_refused(78, "data.answer", data={"answer": "chosen"})

    def test_of_tokens_without_pairs(self):
        self.expect_refused(65, "pairs", data={"tokens": FIXTURES / "moby-dick.tokens.h5"})

    def test_of_pairs_of_another_tokenizer(self):
        """Where the model and the token file both tell of theirs."""
        tokens, model = self.directory / "pairs.h5", self.directory / "model"
        write_preferences(tokens, 1)
        shutil.copytree(BASE, model)
        shutil.copy(next((FIXTURES / "tokenizers/qwen3").glob("**/tokenizer.json")), model)
        changes = {"model": {"path": model}, "data": {"tokens": tokens, "sequence_length": 48}}
        self.expect_refused(0, **changes)
        with h5py.File(tokens, "r+") as file:
            file.attrs["tokenizer_digest"] = "0123456789abcdef"
        self.expect_refused(65, "data.other_tokenizer", "data.tokens", "pairs.h5", "0123456789abcdef", **changes)
        self.expect(run_job(2, self.prefer(**changes)), 65, "data.other_tokenizer")
        self.expect_refused(0, **changes | {"model": {"path": BASE}})

    def test_of_pairs_that_are_longer_than_a_sequence(self):
        self.expect_refused(65, "sequence_length", data={"sequence_length": 12})

    def test_of_nothing_where_pairs_are_learnt_as_documents(self):
        job = self.prefer(job={"kind": "train"}, prefer=None)
        self.expect(sluice("check", job), 0, 'job.kind = "prefer"')
        self.expect(sluice("check", self.prefer()), 0, "6 pairs")

    def test_of_a_run_of_another_kind(self):
        job = self.prefer()
        self.run_job(job, 2)
        self.expect(run_job(2, job, "--set", "train.steps=5", "--set", "job.kind=train"), 78, "job.kind")


if __name__ == "__main__":
    unittest.main()
