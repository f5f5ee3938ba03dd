"""`sluice launch --hosts`: a job on three test hosts, and what becomes of it when a link is cut or a host dies."""
import pathlib
import re
import signal
import subprocess
import unittest

from on_hosts import GUARD_SECONDS, LIMIT, OnHosts, program


class Launch(OnHosts):
    def test_trains_with_a_rank_on_each_host(self):
        """The launch's host alone has the variable that the job names; ranks try the disk that they share at the same time."""
        job = self.job(train={"steps": 8}, checkpoint={"every_steps": 8, "path": "${SLUICE_TEST_RUNS}/steps"})
        file = self.directory / "hostfile"
        file.write_text("h1\nh2\nh3\n")
        starter = ["env", f"SLUICE_TEST_RUNS={self.directory}/runs", program.SLUICE]
        result = self.finish(self.start(job, "--", "--hostfile", file, starter=starter))
        self.expect(result, 0, "step 8/8", "rank 2", "10.77.0.0/24", f"{self.directory}/runs/steps")
        self.assertNotIn("partial-", result.output)
        self.expect_nothing_left(1, 2, 3)

    def test_ends_soon_after_a_link_is_cut_and_names_rank_and_host(self):
        running = self.start_training("--hosts", "h1,h2,h3", self.job())
        self.hosts.cut(3)
        result = self.finish(running)
        self.expect_one_explanation(result, "host: h", "h3 (rank 2)", "step 20/", "nothing saved", "to do: ")
        waited = re.search(r"\n  step: .* waited ([0-9.]+) s, its limit, for .*rank", result.output)
        self.assertIsNotNone(waited, result.output)
        self.assertGreaterEqual(float(waited[1]), LIMIT)
        self.expect_nothing_left(1, 2)
        self.hosts.join(3)
        program.wait_until(lambda: not self.hosts.processes_of(3), "the end of all on the host that returned", GUARD_SECONDS)

    def test_a_rank_that_is_killed_without_a_word_is_named_with_its_host(self):
        running = self.start_training("--hosts", "h1,h2,h3", self.job(checkpoint={"every_steps": 10}))
        self.kill_rank(3)
        result = self.finish(running)
        self.expect_one_explanation(result, "rank 2 of 3", "SIGKILL", "host: h3 (rank 2)", "last save: step ", "to do: ")
        self.expect_nothing_left(1, 2, 3)


class Codes(OnHosts):
    def test_of_a_save_that_was_asked_for_tells_nothing_of_a_failure(self):
        running = self.start_training("--hosts", "h1,h2,h3", self.job(checkpoint={"every_steps": 1000}))
        self.signal_launch(signal.SIGTERM)
        result = self.finish(running)
        self.expect(result, 75, "saved ")
        self.assertNotIn("-" * 60, result.output)

    def test_of_bad_data_tells_it_once(self):
        result = self.finish(self.start("--hosts", "h1,h2,h3", self.job(data={"tokens": "/none.h5"})))
        self.expect(result, 65, "/none.h5")
        self.expect_once(result, "/none.h5")
        self.assertNotIn("-" * 60, result.output)


class Named(OnHosts):
    def expect_named(self):
        result = self.finish(self.start("--hosts", "h1,h2,h3", self.job()))
        self.expect(result, 70, "h3 ", "ssh h3")
        self.assertNotIn("ssh h2", result.output)
        program.wait_until(lambda: not self.hosts.processes_of(2), "the end of all on the host that answers")


class Refused(Named):
    def test_a_host_that_takes_no_commands_is_named(self):
        self.hosts.kill(3)
        self.expect_named()

    def test_a_program_that_hosts_lack_is_named(self):
        running = self.start("--hosts", "h1,h2", self.job(), starter=["sh", "-c", f'cp {program.SLUICE} /tmp && exec /tmp/sluice "$@"', "sh"])
        self.expect(self.finish(running), 78, "h2: /tmp/sluice ")

    def test_hosts_in_two_places(self):
        file = self.directory / "hostfile"
        file.write_text("h1\n")
        self.expect(self.finish(self.start("--hosts", "h1,h2", self.job(), "--", "--hostfile", file)), 64, "h1,h2", "h1:1")

    def test_more_ranks_than_slots(self):
        self.expect(self.finish(self.start("--hosts", "h1,h2:2", "-n", 4, self.job())), 64, "4 ranks", "3 ")


class Silent(Named):
    def test_a_host_that_does_not_answer_is_named(self):
        self.hosts.cut(3)
        self.expect_named()


class Left(OnHosts):
    def test_what_an_earlier_launch_has_left_on_a_host_is_ended_before_it_is_used_again(self):
        job = self.job()
        running = self.start_training("--hosts", "h1,h2,h3", job)
        rank = next(process for process, command in self.hosts.processes_of(3).items() if "sluice-train" in command)
        mark = re.search(rb"OMPI_MCA_sluice_launch=[^\0]+", pathlib.Path(f"/proc/{rank}/environ").read_bytes())[0].decode()
        self.hosts.kill(1)  # launch too
        self.finish(running)
        for k in (2, 3):
            program.wait_until(lambda k=k: not self.hosts.processes_of(k), f"the end of all on h{k}", GUARD_SECONDS)
        left = subprocess.Popen([*map(str, self.hosts.words(3, "env", mark, "sleep", "999"))])
        self.addCleanup(left.wait)
        self.addCleanup(left.kill)
        self.hosts.serve(1)
        self.hosts.await_agents()
        result = self.finish(self.start("--hosts", "h1,h2,h3", job, "--set", "train.steps=5", "--set", "job.overwrite=true"))
        self.expect(result, 0, "h3: processes that an earlier launch", "step 5/5")
        self.assertEqual(left.wait(GUARD_SECONDS), -signal.SIGKILL)
        self.expect_nothing_left(1, 2, 3)

    def test_a_second_launch_of_a_run_is_refused_while_the_first_one_works(self):
        job = self.job()
        running = self.start_training("--hosts", "h1,h2,h3", job)
        self.expect(self.finish(self.start("--hosts", "h1,h2,h3", job)), 78, "another launch", "h1", "h3")
        self.assertIsNone(running.process.poll())


if __name__ == "__main__":
    unittest.main(verbosity=2)
