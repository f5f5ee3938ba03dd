"""Jobs whose data.tokens names text: tokens are made of it once."""
import json
import shutil
import unittest

import h5py

from program import FIXTURES, sluice
from saving import FIXTURE, SavingTest

SENTENCES = [f"There are {number} whales in the sea, and {number + 1} ships that look for them." for number in range(200)]


class TextsTest(SavingTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        self.model.mkdir()
        config = json.loads((FIXTURES / FIXTURE / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps(config | {"vocab_size": 4096}))
        (self.model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
        shutil.copyfile(FIXTURES / "tokenizers/qwen3/tokenizer.json", self.model / "tokenizer.json")
        self.text = self.directory / "whales.txt"
        self.text.write_text("\n".join(SENTENCES))
        self.lines = self.directory / "whales.jsonl"
        self.lines.write_text("".join(json.dumps({"text": sentence}) + "\n" for sentence in SENTENCES))

    def text_job(self, name="job.toml", text=None, data={}, **changes):
        return self.job(name, model={"path": self.model, "init": "random"}, data={"tokens": text or self.text, **data}, **changes)

    def token_files(self, job):
        return sorted((self.output_of(job) / "tokens").iterdir())

    def datasets(self, path):
        with h5py.File(path) as file:
            return {name: file[name][:].tolist() for name in file}


class Texts(TextsTest):
    def test_become_what_sluice_tokenize_makes_of_them_and_serve_a_run_that_goes_on_with_other_ranks(self):
        made = self.directory / "made.h5"
        self.expect(sluice("tokenize", self.model, self.lines, "-o", made), 0)
        whole, cut = self.text_job("whole.toml", self.lines), self.text_job("cut.toml", self.lines)
        result = self.run_job(whole, 2)
        self.expect(result, 0, "tokens    ", "200 documents", "documents kept apart")
        [file] = self.token_files(whole)
        self.assertEqual(self.datasets(file), self.datasets(made))
        killed = self.run_job(cut, 2, ["--set", "train.steps=4"])
        self.expect(killed, 0, "200 documents")
        before = self.token_files(cut)
        self.assertEqual([path.name for path in before], [file.name])
        written = before[0].stat().st_mtime_ns
        self.expect_resumed(self.run_job(cut, 3), 4, "are there already")
        self.assertEqual([path.stat().st_mtime_ns for path in self.token_files(cut)], [written])
        for step, loss in self.losses(whole).items():
            self.assertAlmostEqual(self.losses(cut)[step], loss, delta=1e-4)

    def test_may_be_packed_mixed_and_held_out(self):
        job = self.text_job(data={"tokens": "", "pack": True, "source": [{"tokens": self.lines}, {"tokens": self.lines}]},
                            evaluate={"tokens": [str(self.text)], "every_steps": 2}, train={"steps": 2})
        self.expect(self.run_job(job, 2), 0, "2 sources", "200 documents", "held out")
        self.assertEqual(len(self.token_files(job)), 2)

    def test_of_rows_with_two_answers_are_of_the_one_that_the_job_names(self):
        (self.model / "chat_template.jinja").write_text("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                                                        "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
        self.lines.write_text("".join(json.dumps({"prompt": "what?", "chosen": sentence, "rejected": sentence[::-1]}) + "\n" for sentence in SENTENCES))
        for answer in ("auto", "rejected"):
            made = self.directory / f"{answer}.h5"
            self.expect(sluice("tokenize", self.model, self.lines, *(["--answer", answer] if answer != "auto" else []), "-o", made), 0)
            job = self.text_job(f"{answer}.toml", self.lines, data={"answer": answer}, train={"steps": 1})
            result = self.run_job(job, 1)
            self.expect(result, 0, *(["data.answer"] if answer == "auto" else []))
            self.assertEqual("data.answer" in result.output, answer == "auto")
            self.assertEqual(self.datasets(self.token_files(job)[0]), self.datasets(made))

    def test_are_evaluated(self):
        job = self.text_job(job={"kind": "evaluate"}, checkpoint={"every_steps": 0})
        self.expect(self.run_job(job, 2), 0, "1 document ")

    def test_that_changed_are_not_gone_on_with(self):
        job = self.text_job(train={"steps": 2})
        self.run_job(job, 2)
        self.text.write_text("\n".join(reversed(SENTENCES)))
        self.expect(self.run_job(job, 2, ["--set", "train.steps=3"], status=65), 65, "[job.resume]", "data.tokens: ")


class Refused(TextsTest):
    def test_with_the_line_and_nothing_left(self):
        with self.lines.open("a") as file:
            file.write('{"text": 3}\n')
        job = self.text_job(text=self.lines)
        result = self.run_job(job, 2, status=65)
        self.expect(result, 65, "whales.jsonl:201: ")
        self.expect_once(result, "whales.jsonl:201: ")
        self.assertEqual(self.token_files(job), [])

    def test_by_check_as_by_run(self):
        self.expect(sluice("check", self.text_job()), 0, "whales.txt is text")
        missing = self.text_job("missing.toml", self.directory / "none.txt")
        (self.model / "tokenizer_config.json").write_text("{}")
        config = json.loads((self.model / "config.json").read_text())
        config.pop("eos_token_id", None)
        (self.model / "config.json").write_text(json.dumps(config))
        endless = self.text_job("endless.toml")
        for command in ("check", "run"):
            self.expect(sluice(command, endless), 65, "end")
        (self.model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
        for command in ("check", "run"):
            self.expect(sluice(command, missing), 65, "data.tokens: ", "none.txt")
        gone = self.text_job("gone.toml", self.directory / "none.h5")
        blank = self.directory / "blank.txt"
        blank.write_text("\n\n \n")
        for command in ("check", "run"):
            self.expect(sluice(command, gone), 65, "data.tokens: ", "none.h5")
            self.expect(sluice(command, self.text_job("blank.toml", blank)), 65, "data.tokens: ", "blank.txt", "[corpus.no_tokens]")
        (self.model / "tokenizer.json").unlink()
        for command in ("check", "run"):
            self.expect(sluice(command, endless), 65, "tokenizer.json")


if __name__ == "__main__":
    unittest.main(verbosity=2)
