"""`sluice launch --hosts` where the launch's own host alone has model, tokens and job file."""
import os
import pathlib
import shutil
import unittest

from on_hosts import GUARD_SECONDS, OnHosts, program

FIXTURE = program.FIXTURES / "qwen3-moe-tiny"
ADAPTER = program.FIXTURES / "lora/qwen3-moe"
WORK = "/tmp/work"  # on a disk that each host has for itself
STARTER = ["env", "-C", WORK, program.SLUICE]


class Handover(OnHosts):
    def setUp(self):
        super().setUp()
        shutil.copytree(FIXTURE, self.on_host(1, "model"))
        shutil.copy(FIXTURE / "reference.h5", self.on_host(1, "tokens.h5"))
        self.tables = program.reference_job("qwen3-moe-tiny", model={"path": "model"}, data={"tokens": "tokens.h5"}, train={"steps": 4},
                                            debug={"dump": ""}, job={"output": "run"}, checkpoint={"every_steps": 2})
        self.write_job_file("job.toml")

    def write_job_file(self, name, **changes):
        tables = {table: keys | changes.get(table, {}) for table, keys in self.tables.items()}
        self.on_host(1, name).write_text(program.job_text(changes | tables))

    def on_host(self, k, name):
        return pathlib.Path(f"/proc/{self.hosts.inits[k]}/root{WORK}") / name

    def launch(self, *arguments, job=("job.toml",)):
        return self.finish(self.start("--hosts", "h1,h2,h3", *job, *arguments, starter=STARTER), 2 * GUARD_SECONDS)

    def test_gives_other_hosts_what_their_ranks_read_and_no_weights(self):
        self.expect(self.launch(), 0, "h2 lacked", "h3 lacked", "step 4/4")
        for name in ("job.toml", "tokens.h5", "model/config.json"):
            self.assertEqual(self.on_host(2, name).read_bytes(), self.on_host(1, name).read_bytes())
        self.assertEqual(list(self.on_host(2, "model").glob("*.safetensors*")), [])
        self.expect(self.launch("--set", "train.steps=5"), 0, "step 5/5")
        with open(self.on_host(1, "job.toml"), "a") as job:  # which goes to the others again, and nothing else
            job.write("[metrics]\n")
        result = self.launch("--set", "train.steps=6")
        self.expect(result, 0, "h2 lacked", "step 6/6")
        self.expect_newer_file_is_kept()

    def train_on_launch_host(self, *settings):
        self.expect(self.finish(self.start_program("run", "job.toml", *settings, starter=STARTER), 2 * GUARD_SECONDS), 0, "saved     step 4")

    def test_gives_other_hosts_all_of_a_saved_step_but_its_weights_and_prompts_and_adapters(self):
        self.train_on_launch_host("--set", "evaluate.tokens=tokens.h5", "--set", "evaluate.every_steps=2")
        shutil.copytree(ADAPTER, self.on_host(1, "adapter"))
        self.on_host(1, "prompts.jsonl").write_text('{"tokens": [1, 2, 3]}\n')
        self.write_job_file("generate.toml", job={"kind": "generate", "output": "answers"}, model={"path": "run", "step": "best", "adapter": "adapter"},
                            generate={"prompts": "prompts.jsonl", "max_tokens": 2})
        self.expect(self.launch(job=["generate.toml"]), 0, "h2 lacked", "h3 lacked")
        self.assertTrue((self.on_host(1, "answers") / "answers.jsonl").exists())
        self.assertTrue((self.on_host(2, "run") / "checkpoints/step-00000004/manifest.json").exists())
        self.assertEqual(list(self.on_host(2, "run").glob("checkpoints/*/rank-*")), [])
        result = self.launch("generate", "run", "--prompts", "prompts.jsonl", "--max-tokens", 2, "--print-tokens", job=())
        self.expect(result, 0)
        self.assertNotIn("lacked", result.output)

    def test_gives_other_hosts_what_a_step_of_adapters_was_trained_on(self):
        self.train_on_launch_host("--set", "lora.rank=2")
        self.expect(self.launch("generate", "run", "--prompt-tokens", "1,2,3", "--max-tokens", 2, "--print-tokens", job=()), 0, "h2 lacked")
        self.assertTrue((self.on_host(2, "model") / "config.json").exists())

    def expect_newer_file_is_kept(self):
        other = self.on_host(3, "job.toml")
        other.write_text("# of somebody else\n")
        os.utime(other, (2**32, 2**32))
        self.expect(self.launch(), 78, "h3", f"{WORK}/job.toml", "newer")
        self.assertEqual(other.read_text(), "# of somebody else\n")

    def test_a_disk_without_room_is_named_with_its_host(self):
        self.on_host(2, "").mkdir(parents=True)
        mount = self.hosts.words(2, "mount", "-t", "tmpfs", "-o", "size=16k", "small", WORK)
        self.expect(program.run(*mount), 0)
        self.expect(self.launch(), 74, "h2", "No space left on device")
        self.assertEqual([path.name for path in self.on_host(2, "").iterdir() if path.name.startswith(".")], [])
        self.expect_nothing_left(1, 2, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
