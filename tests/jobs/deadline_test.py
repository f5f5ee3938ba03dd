"""Ranks that stop, spin, crash or leave: the others say where they are and whom they miss, and the job ends in time, with one
cause. Time in which the whole job is suspended does not count."""
import os
import re
import signal
import time
import unittest

import program
from failure_test import EXPLANATION, Failure
from program import start_mpirun, with_fault


def located(output):
    """Ranks that have said where they are."""
    return sorted(int(line.split(" is in section ")[0][-1]) for line in output.splitlines() if " is in section " in line)


class Stuck(Failure):
    LIMIT = 3

    def run_stuck(self, site, rank, nth, action, **changes):
        # The first step's limit is five times as long.
        job = self.job(deadline={"step_seconds": self.LIMIT / (5 if nth == 1 else 1), "evaluate_seconds": self.LIMIT, "load_seconds": self.LIMIT}, **changes)
        result = self.run_job(job, *with_fault(site, rank, nth, action))
        self.expect(result, 70)
        self.expect_once(result, EXPLANATION)
        self.assertLess(result.seconds_after("injected fault"), self.LIMIT + program.GUARD_SECONDS, result.output)
        return job, result

    def test_a_stopped_rank_is_named_and_the_others_say_where_they_are(self):
        job, result = self.run_stuck("train.step", 1, 3, "stop")
        self.assertLessEqual({0, 2}, set(located(result.output)))  # mpirun continues what it kills, so 1 may come too
        self.assertIn("newest first: ", result.output)
        self.assertIn("sluice::", result.output)  # of the stacks
        self.assertEqual(self.status(job)["id"], "comm.deadline")
        self.assertRegex(self.status(job)["message"], r"ranks? [\d, ]*1")

    def test_a_rank_that_stops_within_a_head_that_ranks_share_is_named(self):
        job, _ = self.run_stuck("train.vocabulary", 1, 1, "stop", parallel={"vocabulary": "sharded"})
        self.assertEqual(self.status(job)["id"], "comm.deadline")
        self.assertRegex(self.status(job)["message"], r"ranks? [\d, ]*1")

    def test_a_rank_that_spins_is_found_with_its_stack(self):
        job, result = self.run_stuck("train.step", 1, 3, "spin")
        self.assertEqual(located(result.output), [0, 1, 2])
        self.assertIn("spin_for_ever", result.output)
        self.assertEqual(self.status(job)["exit_code"], 70)

    def test_all_ranks_may_spin(self):
        _, result = self.run_stuck("train.step", "*", 3, "spin")
        self.assertEqual(located(result.output), [0, 1, 2])
        self.assertRegex(result.output, "without an end.*limit")

    def test_a_rank_that_spins_in_an_evaluation_is_found(self):
        _, result = self.run_stuck("evaluate.step", 2, 1, "spin", job={"kind": "evaluate"})
        self.assertIn("spin_for_ever", result.output)

    def test_ranks_that_spin_while_they_load_are_found(self):
        _, result = self.run_stuck("load.chunk", "*", 1, "spin")
        self.assertRegex(result.output, r"load: .*computed .*limit")

    def test_ranks_that_spin_while_they_export_are_found(self):
        _, result = self.run_stuck("export.write", "*", 1, "spin", export={"at_end": True, "path": self.directory / "model"})
        self.assertRegex(result.output, r"export: .*computed .*limit")

    def test_a_slow_rank_within_the_limit_is_no_failure(self):
        job = self.job(deadline={"step_seconds": 10})
        self.expect(self.run_job(job, *with_fault("train.step", 1, 3, "delay")), 0)


class Waiting(Failure):
    def test_is_told_every_ten_seconds(self):
        job = self.job(deadline={"step_seconds": 23})
        result = self.run_job(job, *with_fault("train.step", 1, 3, "stop"))
        self.expect(result, 70, "[comm.deadline]")
        told = re.findall(r"still in step for (\d+) s, waiting for rank 1: ", result.output)
        self.assertLessEqual({"10", "20"}, set(told))


class Crashed(Failure):
    def crash(self, action, name):
        job = self.job()
        result = self.run_job(job, *with_fault("train.step", 1, 3, action))
        self.assertNotEqual(result.status, 0)
        self.expect_once(result, f"crashed with {name}")
        self.assertNotIn(EXPLANATION, result.output)
        self.expect_end_after_fault(result)
        self.assertIn("rank 1 crashed", self.status(job)["message"])

    def test_by_a_segmentation_fault(self):
        self.crash("crash", "SIGSEGV")

    def test_by_an_abort(self):
        self.crash("abort", "SIGABRT")


class Suspended(Failure):
    def ranks(self):
        found = program.run("pgrep", "-f", f"sluice-train run.*{self.directory.name}").output.split()
        return [int(pid) for pid in found]

    def test_time_in_which_the_whole_job_stands_still_does_not_count(self):
        job = self.job(train={"steps": 60}, deadline={"step_seconds": 10})  # a busy disk holds rank 0 up for some seconds
        running = start_mpirun(3, program.SLUICE, "run", job)
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 3/" in running.output(), "the third step")
        pids = self.ranks()
        self.assertEqual(len(pids), 3)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(16)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        result = running.finish()
        self.expect(result, 0, "step 60/60")

    def test_a_rank_that_comes_back_too_late_does_not_replace_the_cause(self):
        job = self.job(train={"steps": 100000}, deadline={"step_seconds": 3})
        running = start_mpirun(3, program.SLUICE, "run", job)
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 3/" in running.output(), "the third step")
        stopped = max(self.ranks())
        os.kill(stopped, signal.SIGSTOP)
        program.wait_until(lambda: EXPLANATION in running.output(), "the explanation")
        try:
            os.kill(stopped, signal.SIGCONT)
        except ProcessLookupError:
            pass  # gone already
        result = running.finish()
        self.expect_once(result, EXPLANATION)
        cause = result.output[result.output.index(EXPLANATION):].split("\n")[1].strip()
        self.assertRegex(self.status(job)["message"], r"waited .*limit.* rank")
        self.assertRegex(cause, r"waited .*limit.* rank")


if __name__ == "__main__":
    unittest.main(verbosity=2)
