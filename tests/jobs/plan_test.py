"""What `sluice plan` and `sluice check` say of a job is what its run goes by: jobs drawn from a seed, of all kinds, modes, forms and
storages, and each one's plan held against the plan.json of its run.

    plan_test.py [FIRST COUNT]
"""
import json
import pathlib
import random
import shutil
import sys
import tempfile

import h5py
import numpy

from drawn_jobs import merged
from program import FIXTURES, job_text, sluice
from suite import run_job

SEED = 1
PLAIN = ("qwen3-moe-tiny", "mixtral-tiny", "deepseek_v3-tiny", "qwen3_5-moe-tiny", "gpt_oss-tiny", "qwen3-tiny-tied")
QUANTISED = ("qwen3-moe-tiny-fp8-blocks", "qwen3-moe-tiny-fp8-rows", "qwen3-moe-tiny-int4", "gpt_oss-tiny-mxfp4")
KINDS = ("train",) * 4 + ("resume",) * 2 + ("prefer", "evaluate", "score", "generate", "load", "export")


def draw_optimizer(draw):
    """The state of an optimizer, and where it lies."""
    way = draw.choice(["modes", "modes", "fit", "disk"])
    if way == "fit":
        return {"optimizer": {"fit": "auto"}, "memory": {"limit": draw.choice(["230MiB", "300MiB", "500MiB"])}}
    kind = draw.choice(["adamw", "adamw", "lion", "adafactor"])
    optimizer = {"kind": kind, "state": "factored" if kind == "adafactor" else draw.choice(["float32", "bfloat16", "int8"]),
                 "master": draw.choice(["float32", "24bit", "none"]), "gradients": draw.choice(["float32", "bfloat16", "release"])}
    if way == "disk":
        return {"optimizer": optimizer | {"gradients": "release"}, "memory": {"offload": "disk", "limit": "400MiB"}}
    return {"optimizer": optimizer}


def draw_base(draw):
    """A model whose weights stay as they are, below adapters."""
    if draw.random() < 0.5:
        model = {"path": FIXTURES / draw.choice(PLAIN[:4]), "frozen_format": draw.choice(["dtype", "int8", "nf4"])}
        return {"model": model}
    source = {"memory": {"offload": "source", "limit": "400MiB"}, "load": {"readers": "all"}} if draw.random() < 0.3 else {}
    return merged({"model": {"path": FIXTURES / draw.choice(QUANTISED), "frozen_format": "stored"}}, source)


class DrawnJob:
    def __init__(self, number, directory):
        draw = random.Random(f"{SEED}/plan/{number}")
        self.kind = KINDS[number % len(KINDS)]
        self.ranks = draw.choice([1, 2, 3, 3])
        self.trains = self.kind in ("train", "resume", "prefer")
        tables = {"model": {"path": FIXTURES / draw.choice(PLAIN + QUANTISED)}}
        if self.trains and draw.random() < 0.4:
            tables = merged(draw_base(draw), {"lora": {"rank": draw.randint(1, 8)}})
        elif self.trains:
            tables = merged(tables, draw_optimizer(draw))
        tables["data"] = {"tokens": directory / "tokens.h5", "sequence_length": draw.choice([8, 16, 33])}
        tables["train"] = {"steps": 1, "batch_sequences": draw.randint(1, 6), "micro_batch_sequences": draw.randint(1, 2),
                           "recompute": draw.choice(["layer", "none", "all"])}
        tables["checkpoint"] = {"every_steps": draw.choice([0, 1]), "every_minutes": 0, "storage": draw.choice(["auto", "shared"])}
        if self.kind == "resume":
            tables["checkpoint"]["every_steps"] = 1
        if "source" not in str(tables.get("memory")):
            tables["parallel"] = {"expert_parallel": draw.choice([0, 1])}
        formats = random.Random(f"{SEED}/formats/{number}")
        tables.setdefault("parallel", {}).update(reduce=formats.choice(["float32", "bfloat16"]),
                                                 dispatch=formats.choice(["dtype", "int8"]))
        if draw.random() < 0.2 and self.trains:
            tables["evaluate"] = {"tokens": directory / "tokens.h5", "every_steps": 1}
        tables["generate"] = {"prompts": directory / "prompts.jsonl", "max_tokens": 2, "ignore_eos": True,
                              "batch_sequences": draw.randint(1, 4)}
        if self.kind == "prefer":
            tables["prefer"] = {"loss": draw.choice(["sigmoid", "orpo"])}
        tables["job"] = {"kind": "train" if self.kind == "resume" else self.kind, "output": directory / f"run-{number}"}
        if self.kind == "export":
            tables["export"] = {"path": directory / f"export-{number}"}
        self.output, self.tables = tables["job"]["output"], tables
        self.path = directory / f"job-{number}.toml"
        self.path.write_text(job_text(tables))

    def run(self, *words):
        result = run_job(self.ranks, self.path, *words)
        if result.status != 0:
            raise AssertionError(f"the run ended with {result.status}:\n{result.output}")

    def command(self, name, *words):
        result = sluice(name, self.path, "--ranks", self.ranks, "--nodes", 1, "--json", *words)
        if result.status != 0:
            raise AssertionError(f"sluice {name} ended with {result.status}:\n{result.output}")
        return json.loads(result.output[result.output.index("{"):])


def expect_same(name, found, expected):
    """Every number of the plan, of every rank and purpose."""
    found = {key: value for key, value in found.items() if key not in ("findings", "would_fit")}
    for row in found["ranks"]:
        for judged in ("fits", "verdict"):
            row.pop(judged, None)
    if found == expected:
        return
    parts = [f"rank {rank}, {key}: {row.get(key)}, and the run {other.get(key)}"
             for rank, (row, other) in enumerate(zip(found["ranks"], expected["ranks"])) for key in sorted(set(row) | set(other))
             if row.get(key) != other.get(key)]
    parts += [f"{key}: {found.get(key)}, and the run {expected.get(key)}" for key in sorted(set(found) | set(expected))
              if key != "ranks" and found.get(key) != expected.get(key)]
    raise AssertionError(f"sluice {name} says " + "; ".join(parts))


def check(number, directory):
    """A job's plan is asked for just before its run, which then finds what the commands found: no step, or one to go on from."""
    job = DrawnJob(number, directory)
    more = ()
    if job.kind == "resume":
        job.run()
        more = ("--set", "train.steps=2")
    said = {name: job.command(name, *more) for name in ("plan", "check")}
    job.run(*more)
    expected = json.loads((job.output / "plan.json").read_text())
    for name, found in said.items():
        expect_same(name, found, expected)


def write_inputs(directory):
    with h5py.File(directory / "tokens.h5", "w") as file:
        file["tokens"] = numpy.random.default_rng(1).integers(0, 64, 2000, dtype=numpy.int32)
        file["document_starts"] = numpy.arange(0, 2000, 4)
        file["loss_mask"] = numpy.tile(numpy.array([0, 0, 1, 1], numpy.uint8), 500)
        file["pairs"] = numpy.arange(500).reshape(250, 2)
    prompts = ({"id": number, "tokens": [3, 5, 8][:number + 1]} for number in range(3))
    (directory / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))


def main(first=0, count=60):
    failed = []
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-plan-"))
    write_inputs(directory)
    for number in range(first, first + count):
        try:
            check(number, directory)
        except AssertionError as difference:
            job = directory / f"job-{number}.toml"
            print(f"\nJob {number}: {difference}", job.read_text(), sep="\n", flush=True)
            failed.append(number)
    shutil.rmtree(directory, ignore_errors=True)
    sys.exit(f"{len(failed)} of {count} drawn jobs differ from their plans: {failed}" if failed else 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
