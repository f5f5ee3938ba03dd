"""job.kind = "evaluate": losses are transformers', document by document, at every rank count."""
import json
import re
import sys
import unittest

import h5py
import numpy

import program
from program import JobTest, sluice
from suite import run_job

FIXTURE = program.FIXTURES / "qwen3_5-moe-tiny"
LENGTH = 48


class EvaluateTest(JobTest):
    def job(self, name="job.toml", **changes):
        tables = {
            "job": {"kind": "evaluate"},
            "model": {"path": FIXTURE, "dtype": "float32"},
            "data": {"tokens": FIXTURE / "reference.h5", "sequence_length": LENGTH},
            "train": {"batch_sequences": 4},
        }
        for table, keys in changes.items():
            tables[table].update(keys)
        return self.write_job(name, **tables)

    def evaluate(self, ranks, job):
        result = run_job(ranks, job)
        self.expect(result, 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            found = {name: values[:] for name, values in metrics["evaluate"].items()}
        return found, result.output

    def write_tokens(self, name, tokens, starts=None):
        path = self.directory / name
        with h5py.File(path, "w") as file:
            file["tokens"] = tokens
            if starts is not None:
                file["document_starts"] = starts
        return path


class Evaluate(EvaluateTest):
    def test_documents_without_anything_to_predict(self):
        tokens = self.write_tokens("single.h5", numpy.full(500, 7, numpy.int32))
        job = self.job(data={"tokens": tokens, "separator_token": 7})
        self.expect(run_job(2, job), 65, "one token long")

    def test_rows_have_the_loss_of_transformers_at_any_rank_count(self):
        with h5py.File(FIXTURE / "reference.h5") as reference:
            expected = float(reference["loss"][()])
            rows = reference["tokens"].shape[0]
        documents = []
        for ranks in (1, 2, 3):
            found, output = self.evaluate(ranks, self.job(f"at{ranks}.toml"))
            self.assertLess(abs(found["total_loss"][0] - expected), 1e-5)
            self.assertAlmostEqual(found["total_perplexity"][0], numpy.exp(found["total_loss"][0]), 9)
            self.assertEqual(found["total_tokens"][0], rows * LENGTH)
            self.assertEqual(found["tokens"].tolist(), [LENGTH] * rows)
            self.assertLess(abs(found["loss"].mean() - expected), 1e-5)
            self.assertIn(f"loss {expected:.4f}"[:-1], output)
            documents.append(found["loss"])
        self.assertLess(abs(documents[0] - documents[1]).max(), 1e-5)
        self.assertLess(abs(documents[0] - documents[2]).max(), 1e-5)
        self.check_told(self.directory / "at1", self.directory / "at3", rows, f"{expected:.4f}"[:-1])

    def check_told(self, run, other, rows, loss):
        """What status, top and report show of evaluations."""
        shown = ("evaluate", "done", f"sequence {rows}/{rows}", loss)
        self.expect(sluice("status", run, other), 0, *shown)
        self.expect(sluice("top", run), 0, *shown, "perplexity", f"{rows * LENGTH} tokens", f"{rows} documents")
        self.expect(sluice("report", run, other), 0)
        page = (run / "report.html").read_text()
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
        for shown_run in data["runs"]:
            facts = dict(shown_run["facts"])
            self.assertEqual((facts["kind"], facts["evaluated"]), ("evaluate", f"{rows * LENGTH} tokens of {rows} documents"))
            self.assertTrue(facts["loss, nat a token"].startswith(loss), facts)
            self.assertEqual(len(shown_run["documents"]), rows)
        self.expect(sluice("metrics", "export", run, "--csv"), 65, 'job.kind is "evaluate"')
        self.assertIn("evaluated", (run / "logs/rank-00000.log").read_text())

    def test_documents_are_apart_whether_listed_or_separated_and_every_token_counts(self):
        with h5py.File(FIXTURE / "reference.h5") as reference:
            rows = reference["tokens"][:]
        separator = 511
        rows[rows == separator] = 510
        documents = [rows[0], rows[1][:7], rows[2][:30], rows[3][:2]]
        stream = numpy.concatenate([numpy.append(document, separator) for document in documents])
        lengths = [len(document) + 1 for document in documents]
        starts = numpy.cumsum([0] + lengths[:-1])
        listed = self.write_tokens("listed.h5", stream, starts)
        plain = self.write_tokens("plain.h5", stream)
        length = {"sequence_length": 100}  # all in one sequence, and padding
        found, _ = self.evaluate(3, self.job("listed.toml", data={"tokens": listed} | length))
        other, _ = self.evaluate(2, self.job("separated.toml", data={"tokens": plain, "separator_token": separator} | length))
        self.assertEqual(found["tokens"].tolist(), [count - 1 for count in lengths])
        self.assertLess(abs(found["loss"] - other["loss"]).max(), 1e-5)
        for i, document in enumerate(documents[:2]):
            path = self.write_tokens(f"{i}.h5", numpy.append(document, separator))
            alone, _ = self.evaluate(1, self.job(f"alone{i}.toml", data={"tokens": path} | length))
            self.assertLess(abs(alone["total_loss"][0] - found["loss"][i]), 1e-5)
        together, _ = self.evaluate(1, self.job("together.toml", data={"tokens": plain} | length))
        self.assertGreater(abs(together["total_loss"][0] - found["total_loss"][0]), 1e-3)

    def test_training_with_separators_is_training_with_starts(self):
        with h5py.File(FIXTURE / "reference.h5") as reference:
            stream = reference["tokens"][:].flatten()
        separator = int(numpy.bincount(stream).argmax())
        ends = numpy.flatnonzero(stream[:-1] == separator)
        listed = self.write_tokens("listed.h5", stream, ends + 1)
        plain = self.write_tokens("plain.h5", stream)
        losses = []
        for name, ranks, data in [("listed.toml", 2, {"tokens": listed}),
                                  ("separated.toml", 3, {"tokens": plain, "separator_token": separator}),
                                  ("joined.toml", 1, {"tokens": plain})]:
            job = self.job(name, job={"kind": "train"}, data=data, train={"steps": 3})
            self.expect(run_job(ranks, job), 0)
            with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
                losses.append(metrics["train/loss"][:])
        self.assertLess(abs(losses[0] - losses[1]).max(), 1e-5)
        self.assertGreater(abs(losses[0] - losses[2]).min(), 1e-3)

    def test_a_bad_token_file_is_one_error(self):
        listed = self.write_tokens("listed.h5", numpy.arange(200), [0, 5, 5])
        result = run_job(3, self.job(data={"tokens": listed}))
        self.expect(result, 65, "document_starts[2]", "is 5", "at least 6")
        self.expect_once(result, "document_starts[2]")
        self.expect_prompt(result)

    def test_documents_that_were_refused_are_written_with_the_next(self):
        job = self.job(train={"batch_sequences": 2})
        result = run_job(2, job, fault=program.fault("metrics.append", 0, 2, "io"))
        self.expect(result, 0, "cannot write metrics", "metrics.h5 is written again")
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            self.assertEqual(metrics["evaluate/tokens"][:].tolist(), [LENGTH] * 6)
            self.assertEqual(metrics["evaluate/total_tokens"][0], 6 * LENGTH)

    def test_results_that_found_no_room_are_printed_and_the_end_is_an_error(self):
        result = run_job(2, self.job(), fault=program.fault("metrics.append", 0, "1+", "io"))
        self.expect(result, 74, "[io.write]", "6 documents", "metrics.h5", "6 rows")

    def test_a_check_looks_at_the_tokens(self):
        self.expect(sluice("check", self.job(), "--ranks", 3), 0, "6 sequences", "48 tokens")
        self.expect(sluice("check", self.job("s.toml", data={"separator_token": 3}), "--ranks", 3), 0, "documents kept apart")
        self.expect(sluice("check", self.job("b.toml", data={"separator_token": 512})), 65, "0 to 511")

    def test_a_plan_counts_the_forward_pass_alone(self):
        result = sluice("plan", self.job(), "--ranks", 3, "--json")
        self.expect(result, 0, '"optimizer_bytes": 0', '"gradient_buffer_bytes": 0')
        self.assertNotIn('"gather_buffers_bytes": 0', result.output)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
