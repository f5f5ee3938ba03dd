"""sluice tokenize: text, JSONL and chats to token files. What is expected of tokenizers and chat templates was made by the tokenizers
library and by transformers (tests/fixtures/make_tokenizers.py, make_chats.py)."""
import json
import os
import shutil
import signal
import unittest

import h5py
import numpy

from drawn_chats import FORMS, forms_of
from program import FIXTURES, SLUICE, JobTest, Program, sluice, wait_until

TOKENIZERS = FIXTURES / "tokenizers"
CHATS = FIXTURES / "chats"


class TokenizeTest(JobTest):
    def model(self, family="qwen3", name="model", end="<|endoftext|>", **config):
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        shutil.copyfile(TOKENIZERS / family / "tokenizer.json", directory / "tokenizer.json")
        (directory / "config.json").write_text(json.dumps({"vocab_size": 4096, **config}))
        if end:
            (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
        return directory

    def chat_model(self, name, kind):
        directory = self.directory / f"{name}-{kind}"
        directory.mkdir()
        for file in ("config.json", "tokenizer_config.json"):
            shutil.copyfile(CHATS / name / file, directory / file)
        shutil.copyfile(CHATS / name / f"{kind}.jinja", directory / "chat_template.jinja")
        family = (CHATS / name / "family").read_text().strip()
        shutil.copyfile(TOKENIZERS / family / "tokenizer.json", directory / "tokenizer.json")
        return directory

    def write(self, name, content):
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def lines(self, name, *values):
        return self.write(name, "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values))

    def tokenize(self, model, *words, out="out.h5", status=0, parts=()):
        path = self.directory / out
        result = sluice("tokenize", model, *words, "-o", path)
        self.expect(result, status, *parts)
        if status != 0:
            self.assertEqual([entry for entry in self.directory.iterdir() if "out" in entry.name], [], "something is left")
        return path, result

    def documents(self, path, dataset="tokens"):
        with h5py.File(path) as file:
            values, starts = file[dataset][:].tolist(), file["document_starts"][:].tolist()
        return [values[begin:end] for begin, end in zip(starts, starts[1:] + [len(values)])]

    def id_of(self, model, token):
        document = json.loads((model / "tokenizer.json").read_text())
        return next(entry["id"] for entry in document["added_tokens"] if entry["content"] == token)


class Text(TokenizeTest):
    def expected(self, family):
        texts = [json.loads(line) for line in (TOKENIZERS / "corpus.txt").read_text().splitlines()]
        lines = [json.loads(line) for line in (TOKENIZERS / family / "expected.jsonl").read_text().splitlines()]
        return texts, [line["ids"] for line in lines]

    def test_texts_of_jsonl_have_the_ids_of_the_tokenizers_library(self):
        for family, end in (("qwen3", "<|endoftext|>"), ("llama3", "<|end_of_text|>"), ("mixtral", "</s>"), ("gpt2", "<|endoftext|>")):
            with self.subTest(family=family):
                model = self.model(family, family, end)
                texts, ids = self.expected(family)
                source = self.lines(f"{family}.jsonl", *({"body": text} for text in texts))
                path, _ = self.tokenize(model, source, "--field", "body", "--no-eos", out=f"{family}-out.h5")
                bare = 1 if family in ("llama3", "mixtral") else 0  # the begin-of-text alone
                kept = [expected for text, expected in zip(texts, ids) if text]
                self.assertEqual(len(texts) - 1, len(kept))
                begin = kept[0][:bare]
                # A text that is written with its begin-of-text has one.
                self.assertEqual(self.documents(path), [row[bare:] if row[:2] == begin * 2 and bare else row for row in kept])

    def test_a_file_is_a_document_that_ends_with_the_end_token(self):
        model = self.model()
        path, _ = self.tokenize(model, self.write("a.txt", "one\n"), self.write("b.txt", "two<|endoftext|>three"), self.write("c.txt", ""),
                                "--documents", "file")
        end = self.id_of(model, "<|endoftext|>")
        first, second = self.documents(path)
        self.assertEqual((first[-1], second[-1]), (end, end))
        self.assertEqual(second.count(end), 2)
        with h5py.File(path) as file:
            self.assertEqual(file["tokens"].dtype, numpy.int32)
            self.assertEqual(file.attrs["documents"], 2)
            self.assertEqual(file.attrs["empty_documents"], 1)
            self.assertEqual(file.attrs["vocab_size"], 4096)
            self.assertEqual(len(file.attrs["tokenizer_digest"]), 32)
            self.assertEqual(file.attrs["sources"].splitlines()[1], str(self.directory / "b.txt"))
            self.assertNotIn("loss_mask", file)

    def test_the_end_token_in_a_text_ends_a_document(self):
        model = self.model()
        source = self.write("a.txt", "one<|endoftext|>two three<|endoftext|><|endoftext|> <|endoftext|>")
        documents = self.documents(self.tokenize(model, source)[0])
        end = self.id_of(model, "<|endoftext|>")
        self.assertEqual(len(documents), 3)  # the last is a blank, which is text; one is empty
        self.assertTrue(all(document[-1] == end and document.count(end) == 1 for document in documents))
        lines = self.lines("a.jsonl", {"text": "one<|endoftext|>two"})
        self.assertEqual(len(self.documents(self.tokenize(model, lines, out="lines-out.h5")[0])), 1)

    def test_blank_lines_part_documents(self):
        model = self.model()
        source = self.write("a.txt", "\n\none\ntwo\n\n \t\nthree\r\n\r\nfour")
        path, _ = self.tokenize(model, source, "--documents", "blank", "--no-eos")
        texts = ["one\ntwo", "three\r", "four"]
        lines = self.lines("same.jsonl", *({"text": text} for text in texts))
        other, _ = self.tokenize(model, lines, "--no-eos", out="other-out.h5")
        self.assertEqual(self.documents(path), self.documents(other))

    def test_a_long_document_is_the_same_in_parts_and_by_any_number_of_threads(self):
        text = "".join(f"line {index} of it\nand\n\n  more é 😀 {index * 7919}\n" for index in range(60000))
        for family, end in (("qwen3_5", "<|endoftext|>"), ("mixtral", "</s>")):
            model = self.model(family, family, end)
            source = self.write("long.txt", text)  # 2.5 MB: in parts
            whole = self.lines("whole.jsonl", {"text": text})
            one, _ = self.tokenize(model, source, "--threads", 1, out=f"{family}-one.h5")
            three, _ = self.tokenize(model, source, "--threads", 3, out=f"{family}-three.h5")
            line, _ = self.tokenize(model, whole, out=f"{family}-line.h5")
            self.assertEqual(self.documents(one), self.documents(three))
            self.assertEqual(self.documents(one), self.documents(line))

    def test_bytes_that_are_no_text_are_counted(self):
        path, result = self.tokenize(self.model(), self.write("a.txt", b"a\xff\xfe b\xe2\x82"))
        self.assertIn("3 places ", result.output)
        with h5py.File(path) as file:
            self.assertEqual(file.attrs["repaired_characters"], 3)

    def test_a_share_is_held_out(self):
        model = self.model()
        source = self.lines("a.jsonl", *({"text": f"document {index}"} for index in range(2000)))
        path, result = self.tokenize(model, source, "--holdout", "0.1")
        self.assertIn("held out", result.output)
        kept, held = self.documents(path), self.documents(self.directory / "out.holdout.h5")
        self.assertEqual(len(kept) + len(held), 2000)
        self.assertTrue(140 < len(held) < 260, len(held))
        everything, _ = self.tokenize(model, source, out="all-out.h5")
        self.assertEqual(sorted(kept + held), sorted(self.documents(everything)))
        _, result = self.tokenize(model, self.lines("few.jsonl", {"text": "one"}, {"text": "other"}), "--holdout", "0.0001", out="few.h5")
        self.assertRegex(result.output, r"few\.holdout\.h5 is empty.*0\.0001")

    def test_the_end_token_is_looked_for_where_it_is_said(self):
        source = self.write("a.txt", "one")
        model = self.model(end=None, name="config", eos_token_id=[7, 8])
        self.assertEqual(self.documents(self.tokenize(model, source, out="1-out.h5")[0])[0][-1], 7)
        path, _ = self.tokenize(model, source, "--eos", "<|im_end|>", out="2-out.h5")
        self.assertEqual(self.documents(path)[0][-1], self.id_of(model, "<|im_end|>"))
        for file in self.directory.glob("*out.h5"):
            file.unlink()
        nowhere = self.model(end=None, name="nowhere")
        self.tokenize(nowhere, source, status=65, parts=["does not say which token ends a document", "--eos", "--no-eos"])
        self.tokenize(nowhere, source, "--eos", "<nothing>", status=64, parts=["--eos", "<nothing>"])
        self.tokenize(nowhere, source, "--no-eos")


class Chats(TokenizeTest):
    def test_layout_and_masks_are_those_of_transformers(self):
        count = 0
        for directory in sorted(entry for entry in CHATS.iterdir() if entry.is_dir()):
            conversations = (CHATS / "conversations.jsonl").read_text().splitlines()
            if directory.name == "llama3":
                conversations = [line for line in conversations if "tools" not in json.loads(line)]
            source = self.lines("chats.jsonl", *conversations)
            for kind in ("plain", "training"):
                with self.subTest(model=directory.name, kind=kind):
                    expected = [json.loads(line) for line in (directory / f"{kind}.jsonl").read_text().splitlines()]
                    loss = "assistant" if kind == "training" else "all"
                    path, _ = self.tokenize(self.chat_model(directory.name, kind), source, "--loss", loss, out=f"{directory.name}-{kind}-out.h5")
                    self.assertEqual(self.documents(path), [row["ids"] for row in expected])
                    masks = self.documents(path, "loss_mask")
                    for row, mask in zip(expected, masks):
                        answers = row.get("answers", [[0, len(mask)]])
                        self.assertEqual(mask, [int(any(begin <= i < end for begin, end in answers)) for i in range(len(mask))])
                        count += 1
        self.assertGreater(count, 50)

    def chatml(self):
        model = self.model(end="<|im_end|>", name="chatml")
        template = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
                    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
        (model / "chat_template.jinja").write_text(template)
        other = self.directory / "jinja"
        if not other.exists():
            shutil.copytree(model, other)
            (other / "chat_template.jinja").write_text(template + "{# by Jinja #}")
        return model, other

    CONVERSATION = [{"role": "system", "content": "be é"}, {"role": "user", "content": " 1\n"}, {"role": "assistant", "content": "two 😀"},
                    {"role": "user", "content": "3"}, {"role": "assistant", "content": "four"}]

    def said(self, path, model):
        """Texts of what counts in the loss, per document."""
        document = json.loads((model / "tokenizer.json").read_text())
        texts = {value: key for key, value in document["model"]["vocab"].items()}
        texts |= {entry["id"]: entry["content"] for entry in document["added_tokens"]}
        rows = zip(self.documents(path), self.documents(path, "loss_mask"))
        return ["".join(texts[token] for token, counts in zip(*row) if counts).replace("Ġ", " ").replace("Ċ", "\n") for row in rows]

    def test_chatml_without_python_is_what_jinja_makes(self):
        model, jinja = self.chatml()
        source = self.lines("chats.jsonl", {"messages": self.CONVERSATION}, {"messages": self.CONVERSATION[1:3]})
        for loss in ("assistant", "all", "last"):
            one, _ = self.tokenize(model, source, "--loss", loss, out=f"{loss}-out.h5")
            other, _ = self.tokenize(jinja, source, "--loss", loss, out=f"{loss}-jinja-out.h5")
            for dataset in ("tokens", "loss_mask"):
                self.assertEqual(self.documents(one, dataset), self.documents(other, dataset))

    def test_what_counts_is_chosen_by_loss_and_by_train(self):
        model, _ = self.chatml()
        untrained = [dict(message) for message in self.CONVERSATION]
        untrained[2]["train"] = False
        source = self.lines("chats.jsonl", {"messages": untrained})
        for loss, said in (("assistant", "four<|im_end|>\n"), ("last", "four<|im_end|>\n")):
            path, _ = self.tokenize(model, source, "--loss", loss, out=f"{loss}-out.h5")
            self.assertEqual(self.said(path, model), [said])
        everything = self.said(self.tokenize(model, source, "--loss", "all", out="all-out.h5")[0], model)[0]
        self.assertNotIn("two", everything)
        self.assertIn("<|im_start|>assistant\n<|im_start|>user\n3", everything)

    def test_the_forms_that_people_keep_chats_in_are_one(self):
        model, _ = self.chatml()
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
        source = self.lines("chats.jsonl", {"messages": messages}, {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]},
                            {"prompt": "hi", "completion": "ho"}, {"prompt": messages[:1], "completion": messages[1:]}, {"conversations": messages})
        rows = self.documents(self.tokenize(model, source)[0])
        self.assertEqual(len(rows), 5)
        self.assertTrue(all(row == rows[0] for row in rows))

    def test_chats_kept_as_json_text_are_what_their_lists_are(self):
        """SLUICE_CHATS chats, 30 by default, as SLUICE_CHATS_SEED draws them, for templates that want arguments as objects, as texts, or either."""
        seed, count = (int(os.environ.get(name, value)) for name, value in (("SLUICE_CHATS_SEED", 1), ("SLUICE_CHATS", 30)))
        source = self.lines("chats.jsonl", *(row for number in range(count) for row in forms_of(seed, number)))
        wants_text = self.model(name="wants-text")
        (wants_text / "chat_template.jinja").write_text(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{% generation %}{{ m.content }}{% for call in m.tool_calls %}"
            "{{ '<tool_call>' + call.function.arguments }}{% endfor %}{% endgeneration %}<|im_end|>{% endfor %}")
        for model in (self.chat_model("qwen3_5", "training"), self.chat_model("qwen3", "training"), wants_text):
            path, _ = self.tokenize(model, source, out=f"{model.name}-out.h5")
            rows = list(zip(self.documents(path), self.documents(path, "loss_mask")))
            self.assertEqual(len(rows), count * len(FORMS))
            for index, row in enumerate(rows):
                number, form = divmod(index, len(FORMS))
                self.assertEqual(row, rows[index - form], f"{model.name}: chat {number} of seed {seed}, {FORMS[form]}")

    def pair_rows(self):
        """Rows of pairs: two whole ones, one of equal answers, and one whose rejected answer is missing."""
        asked = [{"role": "user", "content": "hi"}]
        return [{"prompt": "hi", "chosen": "ho", "rejected": "hum"},
                {"chosen": asked + [{"role": "assistant", "content": "ho"}], "rejected": asked + [{"role": "assistant", "content": "hum"}]},
                {"prompt": "hi", "chosen": "ho", "rejected": "ho"}, {"prompt": "hi", "chosen": "ho", "rejected": None}]

    def test_pairs_are_two_documents_each_of_which_the_answers_are_learnt(self):
        model, _ = self.chatml()
        rows = self.pair_rows()
        source = self.lines("pairs.jsonl", *rows)
        self.tokenize(model, source, "--pairs", status=65, parts=["pairs.jsonl:4:", "'rejected'"])
        self.tokenize(model, source, "--pairs", "--loss", "all", status=64, parts=["--loss", "--pairs"])
        self.tokenize(model, source, "--pairs", "--answer", "chosen", status=64, parts=["--answer"])
        self.tokenize(model, self.write("a.txt", "text"), "--pairs", status=65, parts=["a.txt", "rows of JSON"])
        path, result = self.tokenize(model, source, "--pairs", "--bad-lines", "skip", out="pairs.h5")
        self.assertEqual(self.said(path, model), ["ho<|im_end|>\n", "hum<|im_end|>\n"] * 2)
        with h5py.File(path) as file:
            self.assertEqual(file["pairs"][:].tolist(), [[0, 1], [2, 3]])
        self.expect(result, 0, "2 pairs", "1 pair left out", "pairs.jsonl:3", "1 bad line")
        self.tokenize(model, self.lines("equal.jsonl", rows[2]), "--pairs", status=65, parts=["1 pair", "equal.jsonl:1", "same"])
        many = self.lines("many.jsonl", *rows[:2] * 50)
        path, _ = self.tokenize(model, many, "--pairs", "--holdout", "0.2", out="many.h5")
        with h5py.File(path) as kept, h5py.File(path.with_suffix(".holdout.h5")) as held:
            self.assertEqual(len(kept["pairs"]) + len(held["pairs"]), 100)
            for file in (kept, held):
                self.assertEqual(file["pairs"][:].ravel().tolist(), list(range(len(file["document_starts"]))))

    def test_of_two_answers_the_one_asked_for_is_learnt(self):
        model, _ = self.chatml()
        source = self.lines("pairs.jsonl", *self.pair_rows()[:2])
        for answer, said in (("chosen", "ho"), ("rejected", "hum")):
            path, result = self.tokenize(model, source, "--answer", answer, out=f"{answer}-out.h5")
            self.assertEqual(self.said(path, model), [f"{said}<|im_end|>\n"] * 2)
            self.assertNotIn("--answer", result.output)
        path, result = self.tokenize(model, source, out="auto-out.h5")
        self.assertEqual(self.said(path, model), ["ho<|im_end|>\n"] * 2)
        self.expect(result, 0, "of 2 rows", "--answer rejected", "data.answer", "--pairs")

    def test_tools_and_reasoning_are_left_out_where_asked(self):
        model = self.chat_model("qwen3", "training")
        tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho", "reasoning_content": "hmm"}]
        source = self.lines("a.jsonl", {"messages": messages, "tools": tools})
        bare = self.lines("b.jsonl", {"messages": [messages[0], {"role": "assistant", "content": "ho"}]})
        one, _ = self.tokenize(model, source, "--tools", "drop", "--reasoning", "drop", out="1-out.h5")
        other, _ = self.tokenize(model, bare, out="2-out.h5")
        kept, _ = self.tokenize(model, source, out="3-out.h5")
        self.assertEqual(self.documents(one), self.documents(other))
        self.assertGreater(len(self.documents(kept)[0]), len(self.documents(one)[0]) + 10)

    def test_a_template_that_fails_says_its_line_and_the_conversation(self):
        model = self.model(name="raising")
        (model / "chat_template.jinja").write_text("{% for m in messages %}\n{% if m.role == 'tool' %}\n{{ raise_exception('no tools here') }}\n"
                                                   "{% endif %}{% endfor %}x")
        good, bad = {"messages": self.CONVERSATION}, {"messages": [{"role": "tool", "content": "x"}]}
        source = self.lines("chats.jsonl", good, bad)
        self.tokenize(model, source, "--loss", "all", status=65, parts=["chats.jsonl:2:", "line 3 of the template", "no tools here"])
        (model / "chat_template.jinja").write_text("{% for m in messages %}\n{% endif %}")
        self.tokenize(model, source, status=65, parts=["chats.jsonl:1:", "line 2 of the template", "endif"])
        (model / "chat_template.jinja").write_text("{{ ''.__class__.__mro__ }}")
        self.tokenize(model, source, "--loss", "all", status=65, parts=["chats.jsonl:1:", "SecurityError"])

    def test_answers_that_teach_no_end_are_counted_by_tokenize_check_and_the_job(self):
        model, _ = self.chatml()
        (model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
        config = json.loads((FIXTURES / "qwen3-moe-tiny/config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"vocab_size": 4096}))
        source = self.lines("chats.jsonl", *[{"messages": self.CONVERSATION}] * 40)
        told = ["80 of 80 answers teach no end", "generation_config.json"]
        path, result = self.tokenize(model, source)
        self.expect_once(result, told[0])
        tables = {"job": {"kind": "train", "output": self.directory / "run"}, "model": {"path": model, "init": "random"},
                  "data": {"sequence_length": 16}, "train": {"steps": 1, "batch_sequences": 1}}
        for tokens in (path, source):
            job = self.write_job(**tables | {"data": tables["data"] | {"tokens": tokens}})
            for command in ("check", "run"):
                result = sluice(command, job)
                self.expect(result, 0, *told)
                self.expect_once(result, told[0])
            shutil.rmtree(self.directory / "run")
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [self.id_of(model, "<|im_end|>")]}))
        for result in (self.tokenize(model, source, out="ends-out.h5")[1], sluice("check", job)):
            self.assertNotIn("teach no end", result.output)

    def test_a_model_without_a_template_says_so(self):
        source = self.lines("chats.jsonl", {"messages": self.CONVERSATION})
        self.tokenize(self.model(), source, status=65, parts=["chats.jsonl:1:", "no chat template"])


class BadInput(TokenizeTest):
    def test_bad_lines_are_listed_and_nothing_is_left(self):
        source = self.lines("a.jsonl", {"text": "good"}, '{"text": "cut sh', {"txet": "x"}, {"messages": []}, "[]", {"text": 7},
                            {"messages": [{"role": "wizard", "content": "x"}]}, {"conversations": [{"from": "cat", "value": "x"}]})
        _, result = self.tokenize(self.model(), source, status=65, parts=[
            "7 bad lines", "a.jsonl:2: is not valid JSON", "a.jsonl:3: has no key 'text'; it has: txet", "a.jsonl:4: 'messages' is an empty list",
            "a.jsonl:5: found a JSON array", "a.jsonl:6: 'text' is a JSON number", "a.jsonl:7: message 1 has the role 'wizard'", "a.jsonl:8: 'from' is 'cat'"])
        path, result = self.tokenize(self.model(), source, "--bad-lines", "skip")
        self.assertIn("7 bad lines", result.output)
        self.assertEqual(len(self.documents(path)), 1)

    def test_what_cannot_be_used_is_one_clear_error(self):
        model, source = self.model(), self.write("a.txt", "text of some length, é 123")
        self.tokenize(model, self.directory / "nothing.txt", status=65, parts=["nothing.txt"])
        self.tokenize(model, self.directory, status=65, parts=["not a regular file"])
        for blank in ("", "\n\n \n"):
            self.tokenize(model, self.write("empty.txt", blank), status=65, parts=["empty.txt", "no document with a token"])
        for token in ("whale song", ""):
            self.tokenize(model, source, "--eos", token, status=64, parts=["--eos", "token"])
        self.tokenize(model, source, "--eos", "whale song", "--no-eos", status=64, parts=["--eos"])
        self.tokenize(model, self.write("half.jsonl", '{"text": "a \\ud83d"}\n'), status=65, parts=["half.jsonl:1: ", "surrogate"])
        small = self.model(name="small", vocab_size=50)
        self.tokenize(small, source, status=65, parts=["the ids 0 to 49", "another model's"])
        (model / "config.json").unlink()
        self.tokenize(model, source, status=65, parts=["config.json is missing"])
        (model / "tokenizer.json").write_text('{"model": ')
        self.tokenize(model, source, status=65, parts=["tokenizer.json", "not valid JSON"])
        (model / "tokenizer.json").unlink()
        self.tokenize(model, source, status=65, parts=["tokenizer.json is missing"])
        self.tokenize(model, source, "--loss", "some", status=64)

    def test_an_output_that_is_there_stays(self):
        model, source = self.model(), self.write("a.txt", "text")
        path = self.write("out.h5", "precious")
        self.expect(sluice("tokenize", model, source, "-o", path), 64, "is there already")
        self.assertEqual(path.read_text(), "precious")
        self.expect(sluice("tokenize", model, source, "-o", self.directory / "no" / "out.h5"), 74)

    def test_an_interrupt_leaves_nothing_and_the_next_run_writes_the_same_file(self):
        model = self.model()
        source = self.write("a.txt", "Call me Ishmael.\nSome years ago\n" * 1_500_000)
        program = Program([SLUICE, "tokenize", model, source, "--threads", 1, "-o", self.directory / "out.h5"])
        wait_until(lambda: list(self.directory.glob(".out.h5*")), "the staged file")
        program.process.send_signal(signal.SIGINT)
        self.expect(program.finish(), 128 + signal.SIGINT, "nothing was written")
        self.assertEqual([entry for entry in self.directory.iterdir() if "out" in entry.name], [])


if __name__ == "__main__":
    unittest.main()
