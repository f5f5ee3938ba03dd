"""Training on several token files: each in its share, and the same batches however the job is run."""
import unittest

import h5py
import numpy

from program import FIXTURES, sluice
from saving import STEPS, SavingTest

BOOK = FIXTURES / "moby-dick.tokens.h5"


class Mixture(SavingTest):
    def setUp(self):
        super().setUp()
        with h5py.File(BOOK) as book:
            tokens = book["tokens"][:2000] % 256
        self.files = [self.write_tokens("a.h5", tokens[:800]), self.write_tokens("b.h5", tokens[800:1200])]

    def write_tokens(self, name, tokens):
        with h5py.File(self.directory / name, "w") as file:
            file["tokens"] = numpy.asarray(tokens, numpy.int32)
        return self.directory / name

    def sources(self, *weights):
        return [{"tokens": path, "weight": weight} for path, weight in zip(self.files, weights)]

    def mixed(self, name, *weights, **changes):
        return self.job(name, data={"tokens": "", "source": self.sources(*weights), "order": "shuffle"}, **changes)

    def expect_near(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(found[step], loss, delta=1e-4)


class Batches(Mixture):
    def test_are_the_same_for_any_number_of_ranks_and_for_a_run_that_was_killed(self):
        """Killed in the middle of an epoch of both: behind step 4 some 18 sequences of 16 are taken, and 6 of 8."""
        whole, cut, result = self.whole_and_cut(5, make=lambda name: self.mixed(name, 3, 1))
        self.expect(result, 0, "2 sources", "24 sequences", "48 tokens", "8 steps",
                    "a.h5: 16 sequences", "75 %", "2.25 epochs", "b.h5: 8 sequences", "25 %", "1.5 epochs")
        self.expect_resumed(self.run_job(cut, 2), 4, f"step 5/{STEPS}")
        self.expect_near(self.losses(cut), self.losses(whole))
        alone = self.mixed("alone.toml", 3, 1)
        self.run_job(alone, 1)
        self.expect_near(self.losses(alone), self.losses(whole))

    def test_of_one_source_are_those_of_the_file(self):
        train = {"steps": 3}
        source, file = self.mixed("source.toml", 3, train=train), self.job("file.toml", data={"tokens": self.files[0], "order": "shuffle"}, train=train)
        for job in (source, file):
            self.run_job(job, 2)
        self.assertEqual(self.losses(source), self.losses(file))

    def test_follow_the_weights(self):
        losses = []
        for number, weights in enumerate(((1, 1), (1, 8))):
            job = self.mixed(f"job-{number}.toml", *weights, train={"steps": 2})
            self.run_job(job, 2)
            losses.append(self.losses(job))
        self.assertNotEqual(*losses)


class Refused(Mixture):
    def test_changed_sources_and_weights_are_not_gone_on_with(self):
        job = self.mixed("job.toml", 2, 1, train={"steps": 2})
        self.run_job(job, 2)
        arguments = ["--set", "train.steps=3", "--set"]
        result = self.run_job(job, 2, [*arguments, f"data.source=[{{tokens = '{self.files[0]}'}}, {{tokens = '{self.files[1]}'}}]"], status=78)
        self.expect(result, 78, "[job.resume]", "data.source.weight", "[1.0, 1.0]", "[2.0, 1.0]")
        self.write_tokens("b.h5", [7] * 400)
        result = self.run_job(job, 2, arguments[:2], status=65)
        self.expect(result, 65, "[job.resume]", "data.source: ", "b.h5")

    def test_a_file_that_moved_is_gone_on_with(self):
        job = self.mixed("job.toml", 2, 1, train={"steps": 2})
        self.run_job(job, 2)
        moved = self.files[1].rename(self.directory / "moved.h5")
        source = f"data.source=[{{tokens = '{self.files[0]}', weight = 2}}, {{tokens = '{moved}'}}]"
        self.expect(self.run_job(job, 2, ["--set", "train.steps=3", "--set", source]), 0, "data.source.tokens is", "step 3/3")

    def test_by_check_as_by_run_with_the_file_and_the_key(self):
        broken = self.write_tokens("broken.h5", [100000] * 400)
        job = self.mixed("job.toml", 1, 1)
        for source, status, text in ((f"{{tokens = '{broken}'}}", 65, "broken.h5 is 100000"), ("{tokens = '/none.h5'}", 65, "/none.h5"),
                                     (f"{{tokens = '{self.files[1]}', weight = 0}}", 78, "data.source[1].weight: found 0")):
            setting = f"data.source=[{{tokens = '{self.files[0]}'}}, {source}]"
            for command in ("check", "run"):
                with self.subTest(source=source, command=command):
                    self.expect(sluice(command, job, "--set", setting), status, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
