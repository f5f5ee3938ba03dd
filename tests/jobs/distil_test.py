"""A training with [distil] learns what TRL's GKD learns at beta = 0, from a teacher's file of scores, and refuses a file that does not fit."""
import shutil
import sys
import unittest

import h5py
import numpy

import program
from program import JobTest, losses, sluice
from suite import run_job

STUDENT, TEACHER = program.FIXTURES / "qwen3-moe-tiny", program.FIXTURES / "olmoe-tiny"
REFERENCE = program.FIXTURES / "distillation.h5"  # of make_distillation.py


def along(gradient):
    flat = gradient.astype(numpy.float64).ravel()
    return numpy.array([numpy.linalg.norm(flat), flat @ numpy.cos(numpy.arange(flat.size))])


class DistilTest(JobTest):
    def setUp(self):
        super().setUp()
        with h5py.File(REFERENCE) as reference:
            self.rows = reference["tokens"][:]
        self.file = self.directory / "tokens.h5"
        self.write_tokens(self.file, self.rows)

    def write_tokens(self, path, rows):
        with h5py.File(path, "w") as file:
            file.update({"tokens": rows.ravel(), "document_starts": numpy.arange(0, rows.size, rows.shape[1])})

    def scores(self, name="teacher", tokens=None, **score):
        """A file of scores of the teacher."""
        job = self.write_job(f"{name}.toml", job={"kind": "score"}, model={"path": TEACHER, "dtype": "float32"},
                             data={"tokens": tokens or self.file, "sequence_length": 49}, train={"batch_sequences": 6}, score=score)
        self.expect(run_job(1, job), 0)
        return self.output_of(job) / "scores.h5"

    def job(self, name="job.toml", **changes):
        tables = {"model": {"path": STUDENT, "dtype": "float32"},
                  "data": {"tokens": self.file, "sequence_length": 49, "order": "sequential", "pack": True},
                  "train": {"steps": 1, "batch_sequences": 6, "aux_loss_coefficient": 0.0},
                  "optimizer": {"learning_rate": 2e-3}}
        for table, keys in changes.items():
            tables.setdefault(table, {}).update(keys)
        return self.write_job(name, **tables)

    def metrics_of(self, job):
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return {name: float(metrics[f"train/{name}"][0]) for name in ("loss", "own_loss", "teacher_loss", "teacher_entropy", "grad_norm")}


class Distil(DistilTest):
    def test_of_the_whole_vocabulary_has_the_gradients_of_trl(self):
        with h5py.File(REFERENCE) as reference, h5py.File(STUDENT / "reference.h5") as plain:
            for ranks, temperature in ((1, 1), (2, 2), (3, 1), (3, 2)):
                with self.subTest(ranks=ranks, temperature=temperature):
                    name = f"{ranks}-{temperature}"
                    teacher = self.scores(f"teacher-{name}", distribution="top", top=512, temperature=temperature)
                    job = self.job(f"{name}.toml", distil={"teacher": teacher, "weight": 1}, debug={"dump": "dump.h5"},
                                   train={"micro_batch_sequences": 1 + ranks % 2})
                    self.expect(run_job(ranks, job), 0, "teacher   ", "4100 bytes a token")
                    found, expected = self.metrics_of(job), reference[str(temperature)]
                    entropy = float(expected["teacher_entropy"][()])
                    self.assertAlmostEqual(found["teacher_entropy"], entropy, delta=1e-5 * entropy)
                    self.assertAlmostEqual(found["loss"] - found["teacher_entropy"], float(expected["loss"][()]), delta=2e-5)
                    self.assertAlmostEqual(found["own_loss"], float(plain["loss"][()]), delta=1e-5)
                    with h5py.File(self.output_of(job) / "dump.h5") as dump:
                        names = []
                        expected["grad"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
                        for tensor in names:
                            exact = expected["grad"][tensor][:]
                            self.assertLess(abs(along(dump["grad"][tensor][:]) - exact).max(), 3e-5 * max(exact[0], 1e-3), tensor)

    def test_mixes_the_teacher_with_the_data_by_its_weight(self):
        teacher = self.scores(distribution="top", top=20)
        for weight in (0, 0.3, 1):
            job = self.job(f"{weight}.toml", distil={"teacher": teacher, "weight": weight}, parallel={"vocabulary": "sharded"})
            self.expect(run_job(2, job), 0)
            found = self.metrics_of(job)
            self.assertAlmostEqual(found["loss"], (1 - weight) * found["own_loss"] + weight * found["teacher_loss"], delta=1e-6)
        plain = self.job("plain.toml", parallel={"vocabulary": "sharded"})
        self.expect(run_job(2, plain), 0)
        nothing = self.output_of(self.directory / "0.toml")
        for name in ("loss", "grad_norm"):
            with h5py.File(nothing / "metrics.h5") as one, h5py.File(self.output_of(plain) / "metrics.h5") as other:
                self.assertEqual(one[f"train/{name}"][0], other[f"train/{name}"][0], name)

    def test_of_drawn_tokens_comes_near_the_exact_loss(self):
        exact, drawn = self.scores("exact", distribution="top", top=512), self.scores("drawn", distribution="sampled", samples=200)
        found = []
        for name, teacher in (("exact.toml", exact), ("drawn.toml", drawn)):
            job = self.job(f"train-{name}", distil={"teacher": teacher, "weight": 1})
            self.expect(run_job(2, job), 0)
            found.append(self.metrics_of(job))
        # Of 288 tokens' 200 draws each, with a spread of a few nats a draw.
        self.assertAlmostEqual(found[0]["teacher_loss"], found[1]["teacher_loss"], delta=0.1)
        self.assertTrue(numpy.isnan(found[1]["teacher_entropy"]))

    def test_leaves_a_source_without_a_teacher_to_its_own_tokens(self):
        other = self.directory / "other.h5"
        self.write_tokens(other, self.rows[::-1].copy())
        teacher = self.scores(distribution="top", top=20)
        sources = [{"tokens": str(self.file), "weight": 1.0}, {"tokens": str(other), "weight": 1.0}]
        job = self.job(data={"tokens": "", "source": sources}, distil={"teacher": [teacher], "weight": 1})
        self.expect(run_job(3, job), 0)
        found = self.metrics_of(job)
        self.assertGreater(found["loss"], 0)
        self.assertNotAlmostEqual(found["loss"], found["teacher_loss"], places=4)

    def test_goes_on_to_the_same_bits(self):
        teacher = self.scores(distribution="sampled", samples=8)
        changes = {"distil": {"teacher": teacher}, "checkpoint": {"every_steps": 2}, "schedule": {"kind": "constant"}}
        whole = self.job("whole.toml", train={"steps": 4}, **changes)
        self.expect(run_job(2, whole), 0)
        part = self.job("part.toml", train={"steps": 2}, **changes)
        self.expect(run_job(2, part), 0)
        self.expect(run_job(2, self.job("part.toml", train={"steps": 4}, **changes)), 0, "resume")
        self.assertEqual(losses(self.output_of(part)), losses(self.output_of(whole)))


class Example(DistilTest):
    def test_a_small_model_learns_from_a_larger_one(self):
        """configs/quickstart-student.toml, of two steps."""
        teacher = self.scores(distribution="sampled")
        changes = {"job.output": self.directory / "student", "model.path": STUDENT, "data.tokens": self.file, "data.sequence_length": 49,
                   "distil.teacher": teacher, "evaluate.tokens": self.file, "train.steps": 2, "schedule.warmup_steps": 0}
        words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
        self.expect(run_job(3, program.SOURCE / "configs/quickstart-student.toml", *words), 0, "16 tokens of each distribution", "teacher ", "held out")


class Refused(DistilTest):
    def expect_refused(self, teacher, *parts, **changes):
        job = self.job("refused.toml", distil={"teacher": teacher} | changes)
        for result in (run_job(2, job), sluice("check", job)):
            self.expect(result, 65, "distil.teacher", *parts)

    def test_are_files_of_scores_that_do_not_fit(self):
        teacher = self.scores(distribution="top", top=4)
        self.expect_refused(self.scores("plain"), "data.teacher", "score.distribution")
        self.expect_refused(teacher, "data.teacher", "distil.temperature", temperature=2)
        self.expect_refused([teacher, teacher], "data.teacher", "tokens.h5")
        cut = self.directory / "cut.h5"
        cut.write_bytes(teacher.read_bytes()[:-3000])
        self.expect_refused(cut, "cut.h5")
        for name, change in (("unfinished", lambda file: file.attrs.modify("complete", 0)), ("missing", None)):
            path = self.directory / f"{name}.h5"
            if change:
                shutil.copy(teacher, path)
                with h5py.File(path, "r+") as file:
                    change(file)
            self.expect_refused(path, f"{name}.h5")

    def test_are_scores_of_other_tokens_by_the_first_that_differs(self):
        document, place = 1, 20
        rows = self.rows.copy()
        rows[document, place] = (rows[document, place] + 1) % 512
        other = self.directory / "other.h5"
        self.write_tokens(other, rows)
        teacher = self.scores("other", tokens=other, distribution="sampled", samples=2)
        self.expect_refused(teacher, "data.other_scores", "tokens.h5", f"token {place} of document {document} ",
                            f"is {rows[document, place]} ", f"expected {self.rows[document, place]} ")
        self.write_tokens(other, self.rows[:-1])
        shorter = self.scores("shorter", tokens=other, distribution="sampled", samples=2)
        self.expect_refused(shorter, "data.other_scores", f"{self.rows[:-1].size} tokens", f"expected {self.rows.size} ")

    def test_is_a_teacher_of_another_tokenizer(self):
        """Vocabularies are compared by tokenizer_digest where both are known, and else by their sizes."""
        teacher = self.scores(distribution="top", top=4)

        def change(path, **attributes):
            with h5py.File(path, "r+") as file:
                file.attrs.update(attributes)

        change(teacher, vocab_size=600)
        job = self.job(distil={"teacher": teacher})
        self.expect(sluice("check", job), 0, "teacher", "600 entries")
        change(teacher, tokenizer_digest="ab")
        self.expect(sluice("check", job), 0, "600 entries")
        change(self.file, tokenizer_digest="ab")  # no part of the digest of the tokens
        self.assertNotIn("600 entries", sluice("check", job).output)
        self.expect(run_job(2, job), 0)
        change(self.file, tokenizer_digest="cd")
        self.expect_refused(teacher, "data.teacher", "ab", "cd")

    def test_are_only_found_in_what_the_steps_read(self):
        teacher = self.scores(distribution="top", top=4)
        with h5py.File(teacher, "r+") as file:
            file["distributions/log_probs"][240, 2] = numpy.nan  # of the last of five sequences
        job = self.job(data={"pack": False}, train={"batch_sequences": 2}, distil={"teacher": teacher})
        self.expect(run_job(2, job), 0)
        self.expect(run_job(2, job, "--set", "train.batch_sequences=6", "--set", "job.overwrite=true"), 65, "scores.h5", "token 240")

    def test_are_numbers_that_are_no_distribution_by_the_place_of_the_first(self):
        teacher = self.scores(distribution="top", top=4)
        with h5py.File(teacher, "r+") as file:
            file["distributions/log_probs"][60, 2] = numpy.nan
        job = self.job(distil={"teacher": teacher})
        for result in (run_job(2, job), sluice("check", job)):
            self.expect(result, 65, "scores.h5", "token 60")

    def test_is_a_target_that_the_teacher_left_out(self):
        teacher = self.scores(distribution="top", top=4)
        with h5py.File(teacher, "r+") as file:
            file["distributions/ids"][70] = -1
            file["distributions/rest"][70] = numpy.nan
        self.expect(run_job(2, self.job(distil={"teacher": teacher})), 65, "scores.h5", "token 70")

    def test_is_a_teacher_of_what_is_no_training(self):
        for kind in ("evaluate", "score", "prefer"):
            self.expect(sluice("check", self.job(job={"kind": kind}, distil={"teacher": self.file})), 78, "distil.teacher", "job.kind")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
