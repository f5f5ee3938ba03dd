"""Runs of a small mixture of experts that learns the quickstart's text, and what their losses say."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import h5py
import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LENGTH, BATCH, WARMUP, LAST = 256, 4, 20, 50
HELD_OUT = 0.1  # share of the text, its end


@dataclasses.dataclass
class Result:
    losses: np.ndarray  # [steps]
    held_out: float

    @property
    def last(self):
        return float(self.losses[-LAST:].mean())


class QualityRuns:
    """Runs jobs below a directory, each once: ranks of one thread each, one unless more are asked for."""

    def __init__(self, work, sluice):
        self.work, self.sluice = work.resolve(), sluice.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.job = self.work / "job.toml"
        self.job.write_text("")
        self.write_model()
        with h5py.File(SOURCE / "tests/fixtures/moby-dick.tokens.h5") as file:
            self.ids = file["tokens"][()]

    def write_model(self):
        config = json.loads((SOURCE / "configs/quickstart-model/config.json").read_text())
        config |= {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
                   "moe_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2}
        (self.work / "model").mkdir(exist_ok=True)
        (self.work / "model/config.json").write_text(json.dumps(config))

    def write_tokens(self, name, tokens):
        with h5py.File(self.work / f"{name}.h5", "w") as file:
            file.create_dataset("tokens", data=tokens)

    def trained(self, name):
        """Where a run leaves what it has trained."""
        return self.work / f"{name}-model"

    def call(self, ranks=1, **values):
        words = [f"--set={key.replace('__', '.')}={value}" for key, value in values.items()]
        launcher = [] if ranks == 1 else [SOURCE / "tools/mpirun.sh", "-np", str(ranks)]
        result = subprocess.run([*launcher, self.sluice, "run", self.job, *words], capture_output=True, text=True, check=False,
                                env=os.environ | {"OMP_NUM_THREADS": "1"})
        if result.returncode:
            sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {values['job__output']} ended with {result.returncode}:\n{result.stdout}{result.stderr}")

    def held_out_loss(self, name, **values):
        output = self.work / f"{name}-held-out"
        shutil.rmtree(output, ignore_errors=True)
        self.call(job__kind="evaluate", job__output=output, data__tokens=self.work / "held-out.h5", data__sequence_length=LENGTH,
                  train__batch_sequences=BATCH, **values)
        with h5py.File(output / "metrics.h5") as file:
            return float(file["evaluate/total_loss"][()].item())

    def run_once(self, name, tokens, steps, evaluated, **values):
        """A training's result, by a run or by what an earlier one left; `evaluated` are the settings that take what it trained."""
        output, done = self.work / name, self.work / f"{name}.json"
        if not done.exists():
            for stale in (output, self.trained(name)):
                shutil.rmtree(stale, ignore_errors=True)
            self.call(job__output=output, data__tokens=self.work / f"{tokens}.h5", data__sequence_length=LENGTH, data__order="sequential",
                      checkpoint__every_minutes=0, train__steps=steps, train__batch_sequences=BATCH, train__micro_batch_sequences=2,
                      train__recompute="none", schedule__warmup_steps=WARMUP, schedule__final_factor=0.1, export__at_end="true",
                      export__path=self.trained(name), metrics__log_every=steps, **values)
            held_out = self.held_out_loss(name, **evaluated)
            with h5py.File(output / "metrics.h5") as file:
                done.write_text(json.dumps({"losses": file["train/loss"][()].tolist(), "held_out": held_out}))
        told = json.loads(done.read_text())
        return Result(np.array(told["losses"]), told["held_out"])


def in_parallel(jobs, calls):
    """{key: result} of {key: call}."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {key: pool.submit(call) for key, call in calls.items()}
        return {key: future.result() for key, future in futures.items()}


def percent(losses, references):
    """Seed by seed, of lists in the order of the seeds."""
    return [100 * (loss / reference - 1) for loss, reference in zip(losses, references)]


def describe(values):
    spread = f" ± {np.std(values, ddof=1) / len(values)**0.5:.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):+.2f}{spread}"


def numbers(text):
    return [int(word) for word in text.split(",")]
