"""What must not change the numbers of a first step does not: jobs drawn from a seed, each held against one rank that keeps
everything in float32 (drawn_jobs.py).

    sweep_test.py [--seed SEED] [FIRST COUNT]

draws the jobs FIRST, FIRST + 1, ...; SLUICE_SWEEP_SEED and SLUICE_SWEEP_DRAWS (the count) in the environment do so, too. A job
that differs is told with its seed and number, by which it is drawn again alone.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import sys
import tempfile

import h5py
import numpy

import program
from drawn_jobs import RESUMED_STEPS, Task, WAYS_OF_A_TASK, Way, is_near, later_loss_tolerance, loss_tolerance, merged, norm_tolerance
from program import job_text, sluice
from suite import run_job


class Numbers:
    """Of a run: what its steps, its evaluation or its answers came to."""

    def __init__(self, output, does, file):
        if does == "generate":
            self.answers = program.answers(output)
            return
        if does == "score":
            with h5py.File(output / "scores.h5") as scores:
                self.losses = -scores["documents/log_prob"][:] / scores["documents/targets"][:]
            return
        with h5py.File(output / file) as metrics:
            if does == "evaluate":
                self.losses = metrics["evaluate/total_loss"][:]
                return
            self.steps = metrics["train/step"][:].tolist()
            self.losses = metrics["train/loss"][:]
            self.norm = float(metrics["train/grad_norm"][0])
            self.tokens = metrics["train/tokens"][:]
            self.expert_tokens = metrics["moe/expert_tokens"][:].astype(int)
            self.sent_bytes = int(metrics["train/communicated_bytes"][:].min())
        ranks = json.loads((output / "plan.json").read_text())["ranks"]
        self.planned_bytes = sum(rank["sent_bytes"]["all"] - rank["sent_bytes"]["batch"] for rank in ranks)
        # Weights that are kept are sent in the first step, and planned is a later one.
        self.has_planned_step = len(self.steps) > 1 or ranks[0]["kept_weights_bytes"] == 0

    def elsewhere(self, other, skipped=0):
        """Of each step that both have, the share of tokens that went to other experts in this or an earlier one, if each went alone.
        `skipped`: steps that the other one has before them."""
        counts = other.expert_tokens[skipped:]
        steps = min(len(self.expert_tokens), len(counts))
        moved = abs(self.expert_tokens[:steps] - counts[:steps]).sum((1, 2)) / 2
        return moved.cumsum() / self.tokens[:steps]


class Runner:
    """The jobs of a task, in a directory of its own."""

    def __init__(self, seed, number):
        self.seed = seed
        self.task = Task(seed, number)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-sweep-"))
        self.inputs, self.weights = self.directory / "inputs", self.directory / "weights"
        self.task.write(self.inputs)
        if not self.task.is_drawn:
            self.expect_success(sluice("synthesize", self.inputs, self.weights, "--seed", number))
        self.expected = {}

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def expect_success(result):
        if result.status != 0:
            raise AssertionError(f"ended with {result.status}:\n{result.output}")
        return result

    def write(self, name, *tables):
        path = self.directory / f"{name}.toml"
        path.write_text(job_text(merged({"job": {"output": str(self.directory / name)}}, *tables)))
        return path

    def numbers(self, job, ranks, does, file="metrics.h5"):
        self.expect_success(run_job(ranks, job))
        return Numbers(self.directory / job.stem, does, file)

    def numbers_of_one_rank(self, does):
        if does not in self.expected:
            job = self.write(f"plain-{does}", self.task.tables(self.inputs, self.weights, does))
            self.expected[does] = self.numbers(job, 1, does)
        return self.expected[does]

    def holds(self, number):
        """Whether a draw has the numbers that it must have; what it has instead is told."""
        way = Way(self.seed, number, self.task, self.inputs / "tokens.h5")
        try:
            self.check(number, way)
        except AssertionError as difference:
            jobs = (path.read_text() for path in (self.directory / f"draw-{number}.toml", self.inputs / "config.json"))
            print(f"\nDraw {number} of seed {self.seed} ({way}) differs: {difference}", *jobs,
                  f"Again: python3 {sys.argv[0]} --seed {self.seed} {number} 1", sep="\n", flush=True)
            return False
        return True

    def check(self, number, way):
        job = self.write_way(f"draw-{number}", way, way.ranks)
        expected, found = self.numbers_of_one_rank(way.does_first), self.numbers(job, way.ranks, way.does)
        if way.does == "generate":
            return self.expect_equal("answers", found.answers, expected.answers)
        if way.does == "score" and self.task.dtype == "bfloat16":  # whose roundings few tokens do not make up for
            return self.expect_near("mean loss", [found.losses.mean()], [expected.losses.mean()], loss_tolerance(self.task))
        if way.does in ("evaluate", "score"):
            return self.expect_near("loss", found.losses, expected.losses, loss_tolerance(self.task))
        # A token that went elsewhere may have any loss and gradient, and only in bfloat16 one does.
        elsewhere = found.elsewhere(expected) if self.task.dtype == "bfloat16" else numpy.zeros(1)
        if way.counts_all_bytes and found.has_planned_step:
            # Two answers share a prompt, and so rows of the embedding, which the plan takes for tokens drawn evenly.
            bound = 0.03 if way.does == "prefer" else 0.02
            self.expect_near("bytes sent in a step", [found.sent_bytes], [found.planned_bytes], bound)
        self.expect_near("loss", found.losses[:1], expected.losses[:1], loss_tolerance(self.task) + elsewhere[0])
        self.expect_near("gradient norm", [found.norm], [expected.norm], norm_tolerance(self.task, way.tables) + elsewhere[0])
        return self.check_resumed(number, way, found) if way.does == "resume" else None

    def check_resumed(self, number, way, found):
        """From the first step on, as it may run on: losses are those of the run that was not ended."""
        job = self.write_way(f"draw-{number}", way, way.ranks_after, way.tables_after, {"checkpoint": {"resume": 1}})
        after = self.numbers(job, way.ranks_after, way.does, "metrics.0001.h5")
        self.expect_equal("steps after a resume", after.steps, found.steps[1:])
        elsewhere = after.elsewhere(found, skipped=1) if self.task.dtype == "bfloat16" else numpy.zeros(RESUMED_STEPS - 1)
        tolerances = [loss_tolerance(self.task), later_loss_tolerance(self.task, way.tables)] + elsewhere
        for number, tolerance in enumerate(tolerances):
            self.expect_near("loss after a resume", after.losses[number:][:1], found.losses[1:][number:][:1], tolerance)

    def write_way(self, name, way, ranks, *changes):
        tables = [self.task.tables(self.inputs, self.weights, way.does), way.tables, *changes]
        job = self.write(name, *tables)
        if way.is_offloaded and self.task.is_large:
            job = self.write(name, *tables, {"memory": {"limit": self.memory_limit(job, ranks)}})
        return job

    def memory_limit(self, job, ranks):
        """One that a rank meets with some of its experts on a disk alone."""
        settings = (f"job.output={self.directory / 'refused'}", "checkpoint.resume=never", "memory.limit=64MiB")
        refused = run_job(ranks, job, *(word for setting in settings for word in ("--set", setting)))
        if refused.status != 71:
            raise AssertionError(f"with 64 MiB ended with {refused.status}, expected 71:\n{refused.output}")
        return program.limit_that_just_does(64 << 20, refused.output)

    @staticmethod
    def expect_equal(what, found, expected):
        if found != expected:
            raise AssertionError(f"{what}: found {found}, expected {expected}")

    @staticmethod
    def expect_near(what, found, expected, tolerance):
        if len(found) != len(expected) or not all(is_near(*pair, tolerance) for pair in zip(found, expected)):
            raise AssertionError(f"{what}: found {numpy.array(found)}, expected {numpy.array(expected)}, "
                             f"each to {tolerance:.1e} of itself")


def sweep(seed, numbers):
    """Those of the draws that differ."""
    failed = []
    for task, draws in itertools.groupby(numbers, lambda number: number // WAYS_OF_A_TASK):
        with contextlib.closing(Runner(seed, task)) as runner:
            failed += [number for number in draws if not runner.holds(number)]
    return failed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=os.environ.get("SLUICE_SWEEP_SEED", 1))
    options.add_argument("first", type=int, nargs="?", default=0)
    options.add_argument("count", type=int, nargs="?", default=os.environ.get("SLUICE_SWEEP_DRAWS", 30))
    asked = options.parse_args()
    numbers = range(asked.first, asked.first + asked.count)
    print(f"draws {numbers[0]} to {numbers[-1]} of seed {asked.seed}", flush=True)
    failed = sweep(asked.seed, numbers)
    sys.exit(f"{len(failed)} of {len(numbers)} draws of seed {asked.seed} differ: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
