"""sluice generate and job.kind = "generate": the tokens are transformers', wherever they come from."""
import json
import shutil
import subprocess
import sys
import unittest

import h5py
import numpy

import program
from program import FIXTURES, JobTest, SLUICE, mpirun, reference_job, sluice
from suite import run_job

PROMPT, TOKENS = 8, 40  # as make_generation.py; ids to compare


def expected_ids(fixture):
    """A prompt and what transformers makes of it, nowhere by a lead that rounding may turn."""
    with h5py.File(FIXTURES / "generation.h5") as file:
        ids = file[fixture]["tokens"][: PROMPT + TOKENS].tolist()
        second, best = numpy.sort(file[fixture]["logits"][:TOKENS])[:, -2:].T
    assert (best - second).min() > 2 * program.COMPARE_REFERENCE.LOGITS, fixture
    return ids[:PROMPT], ids[PROMPT:]


def words(ids):
    return ",".join(map(str, ids))


class GenerateTest(JobTest):
    def stdout_of(self, ranks, *arguments, status=0):
        """What the program prints as its result; what it says beside that is `said`."""
        launcher = [] if ranks == 1 else [str(program.MPIRUN), "-np", str(ranks)]
        ran = subprocess.run([*launcher, SLUICE, "generate", *map(str, arguments)], capture_output=True, text=True, timeout=program.LIMIT_SECONDS)
        self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
        self.said = ran.stderr
        return ran.stdout


class Commands(GenerateTest):
    def test_prints_the_ids_of_transformers_at_any_rank_count(self):
        for fixture in ("qwen3-moe-tiny", "qwen3_5-moe-tiny"):
            prompt, answer = expected_ids(fixture)
            for ranks, layout in ((1, 0), (2, 0), (3, 0), (3, 1)):
                printed = self.stdout_of(ranks, FIXTURES / fixture, "--prompt-tokens", words(prompt), "--max-tokens", TOKENS,
                                         "--dtype", "float32", "--print-tokens", "--set", f"parallel.expert_parallel={layout}")
                self.assertEqual(printed, words(answer) + "\n")

    def test_drawn_ids_depend_on_the_seed_and_not_on_the_ranks(self):
        model = FIXTURES / "olmoe-tiny"
        prompts = ["--prompt-tokens", "5,17,42", "--prompt-tokens", "9"]
        drawn = [self.stdout_of(ranks, model, *prompts, "--max-tokens", 12, "--dtype", "float32", "--temperature", 0.9, "--top-p",
                                0.9, "--seed", seed, "--json") for ranks, seed in ((1, 3), (3, 3), (1, 4))]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        answers = [json.loads(line) for line in drawn[0].splitlines()]
        self.assertEqual([answer["id"] for answer in answers], [0, 1])
        self.assertEqual([answer["prompt_tokens"] for answer in answers], [3, 1])
        self.assertEqual({answer["ending"] for answer in answers}, {"max_tokens"})

    def test_launch_starts_it_on_ranks(self):
        prompt, answer = expected_ids("qwen3-moe-tiny")
        asked = ["generate", FIXTURES / "qwen3-moe-tiny", "--prompt-tokens", words(prompt), "--max-tokens", TOKENS, "--dtype",
                 "float32", "--print-tokens"]
        self.expect(sluice("launch", "-n", 3, *asked, "--", "--oversubscribe"), 0, words(answer) + "\n")
        self.expect(sluice("launch", "-n", 3, *asked, "--prompt", "--", "--oversubscribe"), 64, "--prompt")

    def test_launch_refuses_what_is_no_job_before_it_starts_ranks(self):
        result = sluice("launch", "-n", 3, "check", "job.toml")
        self.expect(result, 78, "job file check")
        self.assertEqual(len(result.output.splitlines()), 1, result.output)
        self.expect(sluice("launch", "-n", 3, "chat"), 64, "source")

    def test_experts_may_lie_on_a_disk(self):
        prompt, answer = expected_ids("qwen3-moe-tiny")
        asked = [FIXTURES / "qwen3-moe-tiny", "--prompt-tokens", words(prompt), "--max-tokens", TOKENS, "--dtype", "float32",
                 "--print-tokens", "--set", "memory.offload=disk", "--set"]
        self.stdout_of(2, *asked, "memory.limit=64MiB", status=71)
        printed = self.stdout_of(2, *asked, "memory.limit=" + program.limit_that_just_does(64 << 20, self.said))
        self.assertEqual(printed, words(answer) + "\n")
        self.assertRegex(self.said, r"40 tokens: .*disk\n")

    def test_takes_a_run_and_a_saved_step(self):
        fixture = "qwen3-moe-tiny"
        job = self.write_job(**reference_job(fixture, debug={"dump": ""}, train={"steps": 4}, checkpoint={"every_steps": 2}))
        self.expect(sluice("run", job), 0)
        run = self.output_of(job)
        exported = self.directory / "exported"
        self.expect(sluice("checkpoint", "export", run, exported), 0)
        options = ["--prompt-tokens", "5,17,42", "--max-tokens", 20, "--dtype", "float32", "--print-tokens"]
        found = [self.stdout_of(2, source, *options) for source in (run, run / "checkpoints/step-00000004", exported)]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        self.assertNotEqual(found[0], self.stdout_of(1, FIXTURES / fixture, *options))

    def test_the_end_token_ends_an_answer_unless_it_is_ignored(self):
        model = self.directory / "model"
        model.mkdir()
        for file in (FIXTURES / "qwen3-moe-tiny").iterdir():
            if file.name not in ("generation_config.json", "reference.h5"):
                (model / file.name).symlink_to(file)
        prompt, answer = expected_ids("qwen3-moe-tiny")
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [511, answer[9]]}))
        options = [model, "--prompt-tokens", words(prompt), "--max-tokens", TOKENS, "--dtype", "float32", "--json"]
        ended = json.loads(self.stdout_of(1, *options))
        self.assertEqual(ended["tokens"], answer[: answer.index(answer[9])])
        self.assertEqual(ended["ending"], "end_token")
        self.assertEqual(json.loads(self.stdout_of(1, *options, "--ignore-eos"))["tokens"], answer)

    def test_bad_input_has_one_clear_error(self):
        model = FIXTURES / "qwen3-tiny-yarn"
        for status, part, arguments in (
                (64, "expected token ids such as 5,17,42", [model, "--prompt-tokens", "5,x"]),
                (64, "nothing to answer", [model]),
                (65, "the token id 600, but the model's vocabulary ends at 511", [model, "--prompt-tokens", "5,600"]),
                (65, "prompt 0 has 64 tokens, and a sequence at most 64", [model, "--prompt-tokens", words(range(64))]),
                (65, "there is no such model", [self.directory / "nothing", "--prompt-tokens", 5]),
                (65, "[model.not_a_model]", [self.directory, "--prompt-tokens", 5]),
                (78, "expected a number from 0 to 100", [model, "--prompt-tokens", 5, "--temperature", -1]),
                (78, "--temperature hot: ", [model, "--prompt-tokens", 5, "--temperature", "hot"]),
                (65, "--prompts: cannot open", [model, "--prompts", self.directory / "no.jsonl"]),
                (64, "--max-token", [model, "--prompt-tokens", 5, "--max-token", 1])):
            result = sluice("generate", *arguments)
            self.expect(result, status, part)
            self.assertLessEqual(len(result.output.strip().splitlines()), 2, result.output)
        (self.directory / "job.toml").write_text("")
        self.expect(mpirun(2, SLUICE, "generate", self.directory, "--prompt-tokens", 5), 65, "saved no step")


class Texts(GenerateTest):
    def setUp(self):
        super().setUp()
        config = json.loads((FIXTURES / "qwen3-moe-tiny/config.json").read_text()) | {"vocab_size": 2048}
        (self.directory / "config").mkdir()
        (self.directory / "config/config.json").write_text(json.dumps(config))
        self.model = self.directory / "model"
        self.expect(sluice("synthesize", self.directory / "config", self.model), 0)
        shutil.copy(FIXTURES / "tokenizers/qwen3/tokenizer.json", self.model)
        self.options = ["--max-tokens", 40, "--dtype", "float32", "--temperature", 1]

    def test_what_streams_is_the_text_of_the_tokens(self):
        asked = [self.model, "--prompt", "Call me Ishmael.", *self.options]
        streamed = self.stdout_of(1, *asked)
        answer = json.loads(self.stdout_of(2, *asked, "--json"))
        self.assertEqual(streamed, answer["text"] + "\n")
        self.assertEqual(words(answer["tokens"]) + "\n", self.stdout_of(1, *asked, "--print-tokens"))

    def test_a_stop_ends_an_answer_on_the_rank_that_has_it(self):
        asked = [self.model, "--prompt", "Call me Ishmael.", "--prompt", "Some years ago", *self.options]
        plain = [json.loads(line)["text"] for line in self.stdout_of(2, *asked, "--json").splitlines()]
        stop = plain[1][10:14]
        stopped = [json.loads(line) for line in self.stdout_of(2, *asked, "--json", "--stop", stop).splitlines()]
        self.assertEqual([answer["text"] for answer in stopped], [text.split(stop)[0] for text in plain])
        self.assertEqual(stopped[1]["ending"], "stop")
        prompts = self.directory / "stopped.jsonl"
        prompts.write_text('{"prompt": "Call me Ishmael."}\n{"prompt": "Some years ago"}\n')
        job = self.write_job("stop.toml", job={"kind": "generate"}, model={"path": self.model, "dtype": "float32"},
                             generate={"prompts": prompts, "max_tokens": 40, "temperature": 1, "positions": 80, "stop": ["never said", stop]})
        self.expect(run_job(2, job), 0)
        answers = [json.loads(line) for line in (self.output_of(job) / "answers.jsonl").read_text().splitlines()]
        self.assertEqual({answer["prompt"]: answer["text"] for answer in answers}, dict(enumerate(answer["text"] for answer in stopped)))
        printed = self.stdout_of(1, *asked, "--stop", stop)
        self.assertEqual(printed, "".join(f"--- {i}\n{answer['text']}\n" for i, answer in enumerate(stopped)))

    def test_prompts_come_from_files_too(self):
        lines, objects = self.directory / "prompts.txt", self.directory / "prompts.jsonl"
        lines.write_text("Call me Ishmael.\n\nSome years ago\n")
        objects.write_text('{"prompt": "Call me Ishmael."}\n{"prompt": "Some years ago"}\n')
        found = [self.stdout_of(1, self.model, "--prompts", file, *self.options) for file in (lines, objects)]
        self.assertEqual(found[0], found[1])
        self.assertIn("--- 1\n", found[0])

    def add_template(self):
        chats = FIXTURES / "chats/qwen3"
        shutil.copy(chats / "plain.jinja", self.model / "chat_template.jinja")
        shutil.copy(chats / "tokenizer_config.json", self.model)

    def test_a_chat_is_laid_out_by_the_models_template(self):
        self.add_template()
        laid_out = "<|im_start|>user\nWho is Ahab?<|im_end|>\n<|im_start|>assistant\n"
        expected = self.stdout_of(1, self.model, "--prompt", laid_out, *self.options)
        self.assertEqual(self.stdout_of(1, self.model, "--chat", "--prompt", "Who is Ahab?", *self.options), expected)
        prompts = self.directory / "chat.jsonl"
        prompts.write_text(json.dumps({"messages": [{"role": "user", "content": "Who is Ahab?"}]}) + "\n")
        self.assertEqual(self.stdout_of(1, self.model, "--chat", "--prompts", prompts, *self.options), expected)
        self.expect(sluice("generate", self.model, "--prompts", prompts), 65, "prompt 0", "conversation", "--chat")

    def test_a_conversation_goes_on_with_what_was_said(self):
        self.add_template()
        for ranks in (1, 2):
            launcher = [] if ranks == 1 else [str(program.MPIRUN), "-np", str(ranks)]
            talk = subprocess.run([*launcher, SLUICE, "chat", str(self.model), "--system", "Be brief.", *map(str, self.options), "--stop", "e"],
                                  input="Who is Ahab?\n\nAnd Ishmael?", capture_output=True, text=True, timeout=program.LIMIT_SECONDS)
            self.assertEqual(talk.returncode, 0, talk.stderr)
            if ranks == 1:
                first = talk.stdout
            self.assertEqual(talk.stdout, first)
        said = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho is Ahab?<|im_end|>\n<|im_start|>assistant\n"
        answer = self.stdout_of(1, self.model, "--prompt", said, *self.options, "--stop", "e")
        self.assertTrue(first.startswith(answer), (first, answer))
        self.assertGreater(len(first), len(answer))

    def test_a_message_is_answered_that_leaves_one_position(self):
        self.add_template()
        tokens = 29  # of the first message, laid out; the second alone has 32
        talk = subprocess.run([SLUICE, "chat", str(self.model), "--system", "Be brief.", *map(str, self.options), "--set",
                               f"generate.positions={tokens + 1}"], input="Who is Ahab?\nAnd Ishmael?", capture_output=True, text=True,
                              timeout=program.LIMIT_SECONDS)
        self.assertEqual(talk.returncode, 0, talk.stderr)
        self.assertEqual(talk.stdout.count("\n"), 1, "the second is not answered")
        self.assertIn("32 tokens", talk.stderr)
        self.assertNotIn(f"{tokens} tokens", talk.stderr)

    def test_a_trace_of_a_conversation_counts_its_passes_over_all_turns(self):
        self.add_template()
        talk = subprocess.run([SLUICE, "chat", str(self.model), "--max-tokens", "3", "--ignore-eos", "--trace", str(self.directory)],
                              input="Who is Ahab?\nAnd Ishmael?", capture_output=True, text=True, timeout=program.LIMIT_SECONDS)
        self.assertEqual(talk.returncode, 0, talk.stderr)
        self.expect(sluice("trace", self.directory, "--summary"), 0, "passes 1-6 of 1 rank", "seconds a pass")

    def test_a_chat_needs_a_template(self):
        for command in (["generate", self.model, "--chat", "--prompt", "x"], ["chat", self.model]):
            self.expect(sluice(*command), 65, "no chat template")

    def test_text_needs_a_tokenizer(self):
        bare = FIXTURES / "qwen3-moe-tiny"
        self.expect(sluice("generate", bare, "--prompt", "Call"), 65, "no tokenizer.json", "prompt of text")
        self.expect(sluice("generate", bare, "--prompt-tokens", 1, "--stop", "x"), 65, "no tokenizer.json", "--stop needs")
        self.expect(sluice("generate", self.model, "--prompt", "x", "--stop", ""), 64, "--stop")


class Jobs(GenerateTest):
    def write_prompts(self, count):
        path = self.directory / "prompts.jsonl"
        prompts = [{"id": f"p{i}", "tokens": [(7 * i + j) % 500 for j in range(1 + i % 5)]} for i in range(count)]
        path.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
        return path

    def job(self, prompts, name="job.toml", **changes):
        generate = {"prompts": prompts, "max_tokens": 15, "positions": 30, "sequences": 4, "temperature": 0.7}
        return self.write_job(name, job={"kind": "generate"}, model={"path": FIXTURES / "qwen3_5-moe-tiny", "dtype": "float32"},
                              generate=generate | changes)

    def answers(self, job):
        lines = (self.output_of(job) / "answers.jsonl").read_text().splitlines()
        return {answer["prompt"]: answer for answer in map(json.loads, lines)}

    def test_goes_on_where_an_earlier_run_has_ended(self):
        job = self.job(self.write_prompts(11))
        self.expect(run_job(3, job), 0, "answered 11 prompts")
        whole = self.answers(job)
        self.assertEqual([whole[i]["id"] for i in range(11)], [f"p{i}" for i in range(11)])
        file = self.output_of(job) / "answers.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:4]) + lines[4][:20])
        self.expect(run_job(2, job), 0, "4 of 11", "earlier run", "answered 7 prompts")
        self.assertEqual(self.answers(job), whole)
        self.expect(sluice("run", job), 0, "11 of 11", "earlier run", "done already")
        self.expect(sluice("status", self.output_of(job)), 0, "generate", "prompt 11/11")
        self.expect(sluice("top", self.output_of(job)), 0, "prompt 11/11")
        self.assertEqual(self.answers(job), whole)

    def test_does_not_mix_answers_of_other_settings(self):
        job = self.job(self.write_prompts(2))
        self.expect(sluice("run", job), 0)
        self.expect(sluice("run", job, "--set", "generate.seed=1"), 78, "generate.output", "job.overwrite = true")
        self.expect(sluice("run", job, "--set", "generate.seed=1", "--set", "job.overwrite=true"), 0, "answered 2 prompts")

    def test_prompts_are_checked_before_the_weights_are_read(self):
        prompts = self.directory / "bad.jsonl"
        prompts.write_text('{"tokens": [1]}\n{"tokens": "x"}\n')
        self.expect(sluice("run", self.job(prompts)), 65, "bad.jsonl:2", "token ids")
        self.expect(sluice("run", self.job(self.directory / "none.jsonl", "other.toml")), 65, "none.jsonl")

    def test_memory_is_planned_and_checked(self):
        job = self.job(self.write_prompts(2))
        self.expect(sluice("check", job, "--ranks", 2), 0, "is fine")
        planned = {}
        for sequences in (4, 8):
            told = sluice("plan", job, "--ranks", 2, "--json", "--set", f"generate.batch_sequences={sequences}")
            self.expect(told, 0)
            planned[sequences] = json.loads(told.output)["ranks"][0]["cache_bytes"]
        self.assertEqual(planned[8], 2 * planned[4])


class Training(GenerateTest):
    def job(self, name, prompts, **changes):
        tables = reference_job("qwen3-moe-tiny", debug={"dump": ""}, train={"steps": 6}, checkpoint={"every_steps": 4})
        tables["generate"] = {"prompts": prompts, "max_tokens": 10, "positions": 40, "temperature": 0.9} | changes
        return self.write_job(name, **tables)

    def test_samples_change_not_one_bit_of_the_training(self):
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text('{"tokens": [5, 17, 42]}\n{"id": "b", "tokens": [1]}\n')
        plain, sampled = self.job("plain.toml", prompts), self.job("sampled.toml", prompts, every_steps=2)
        losses, weights = [], []
        for job in (plain, sampled):
            self.expect(run_job(2, job), 0)
            with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
                losses.append(metrics["train/loss"][:].tolist())
            exported = self.directory / f"{job.stem}-weights"
            self.expect(sluice("checkpoint", "export", self.output_of(job), exported), 0)
            weights.append((exported / "model.safetensors").read_bytes())
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(weights[0], weights[1])
        samples = [json.loads(line) for line in (self.output_of(sampled) / "answers.jsonl").read_text().splitlines()]
        self.assertEqual([(sample["step"], sample["id"]) for sample in sorted(samples, key=lambda s: (s["step"], str(s["id"])))],
                         [(2, 0), (2, "b"), (4, 0), (4, "b"), (6, 0), (6, "b")])
        saved = self.stdout_of(2, self.output_of(sampled), "--prompt-tokens", "5,17,42", "--max-tokens", 10, "--temperature", 0.9,
                               "--dtype", "float32", "--print-tokens")
        at_end = next(sample for sample in samples if sample["step"] == 6 and sample["id"] == 0)
        self.assertEqual(saved, words(at_end["tokens"]) + "\n")
        with h5py.File(self.output_of(sampled) / "metrics.h5") as metrics, h5py.File(self.output_of(plain) / "metrics.h5") as without:
            table = {name: column[:].tolist() for name, column in metrics["samples"].items()}
            self.assertNotIn("samples", without)
        told = {(step, prompt): tokens for step, prompt, tokens in zip(table["step"], table["prompt"], table["tokens"])}
        self.assertEqual(told, {(sample["step"], {0: 0, "b": 1}[sample["id"]]): sample["tokens"] for sample in samples})
        self.assertFalse((self.output_of(plain) / "answers.jsonl").exists())

    def test_what_samples_take_is_planned(self):
        prompts = self.directory / "prompts.jsonl"
        told = [sluice("plan", self.job("job.toml", prompts, every_steps=every), "--ranks", 2, "--json") for every in (0, 2)]
        planned = [json.loads(one.output)["ranks"][0] for one in told]
        self.assertEqual(planned[0]["cache_bytes"], 0)
        self.assertEqual(planned[1]["cache_bytes"], 4 * 3 * 40 * 2 * 2 * 32 * 4, "sequences, layers, positions, k and v, heads, width")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
