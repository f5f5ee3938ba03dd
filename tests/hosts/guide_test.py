"""Every command of "Three boxes and a switch" in configs/guide/hosts.md, as it stands there, on three test hosts, one of which dies."""
import os
import re
import shlex
import unittest

from on_hosts import GUARD_SECONDS, OnHosts, program

HEADING = "\n## Three boxes and a switch\n"


def section():
    guide = (program.SOURCE / "configs/guide/hosts.md").read_text()
    return guide.split(HEADING)[1].split("\n## ")[0]


class Guide(OnHosts):
    NAME = "box"

    def setUp(self):
        super().setUp()
        (self.directory / "models").mkdir()
        (self.directory / "models/my-model").symlink_to(program.FIXTURES / "qwen3-moe-tiny")
        (self.directory / "corpus.tokens.h5").symlink_to(program.FIXTURES / "qwen3-moe-tiny/reference.h5")
        (self.directory / "my-job.toml").write_text(re.search(r"```toml\n(.*?)```", section(), re.DOTALL)[1])
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)

    def start_command(self, command):
        name, *arguments = shlex.split(command)
        self.assertEqual(name, "sluice")
        return self.start_program(*arguments)

    def test_three_boxes_and_a_switch(self):
        commands = re.findall(r"^       (sluice .*)$", section(), re.MULTILINE)
        launches = [command for command in commands if " launch " in command]
        self.assertEqual(len(launches), 2)
        for command in commands:
            running = self.start_command(command)
            if command == launches[0]:
                self.await_text(running, "saved     step 40")
                self.hosts.kill(2)
            result = self.finish(running, 5 * GUARD_SECONDS)
            self.expect(result, 0)
            if command == launches[0]:
                self.expect(result, 0, "lost: box2 (rank 1)", "restart   1 of 5", "resume    from step ", "step 200/200")
                self.hosts.serve(2)
                self.hosts.await_agents()
        self.assertTrue((self.directory / "runs/my-run/report.html").exists())
        self.assertTrue((self.directory / "trained/config.json").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
