"""The measurements of tools/gpu_check.sh, which builds the program first.

Each part adds its numbers to one JSON object, written at the end and after every part. What is printed is one line for each
number. Exit status 1 if a number is outside its bound, 71 if no GPU can be used.
"""
import argparse
import concurrent.futures
import datetime
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/jobs"))
from program import reference_job  # noqa: E402
FIXTURES = SOURCE / "tests/fixtures"
SHAPE = FIXTURES / "configs/Qwen3.5-35B-A3B"  # 34.66 B parameters
ACTIVE_PARAMETERS = 3.0e9  # of them, that a token meets
TOKENS = FIXTURES / "moby-dick.tokens.h5"
NO_GPU = 71

# Peak of bfloat16 products without sparsity, in FLOP/s, for MFU.
PEAKS = {"H100": 989e12, "H200": 989e12, "GB10": 125e12}

FIXTURES_AT_A_TIME = 6
FLOAT32_BOUND, BFLOAT16_BOUND = 1e-3, 0.05  # of a fixture's losses
LOAD_BYTES_PER_S, LOAD_GROWTH_BYTES = 40e9, 1 << 30

# name: kind, state, master, gradients, clip
MODES = {"adamw int8 24bit release": ("adamw", "int8", "24bit", "release", "unit"),
         "lion int8 none release": ("lion", "int8", "none", "release", "unit"),
         "adafactor none release": ("adafactor", "factored", "none", "release", "unit")}


class Check:
    def __init__(self, arguments):
        self.sluice, self.ranks, self.limit = arguments.sluice, arguments.ranks, arguments.limit
        self.results, self.file, self.held = {}, arguments.json, True
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-gpu-", dir=arguments.directory))

    def tell(self, part, name, value, unit="", bound=None, at_least=False):
        """A number, and whether it is within its bound."""
        held = bound is None or (value >= bound if at_least else value <= bound)
        self.held &= held
        self.results.setdefault(part, {})[name] = value
        allowed = "" if bound is None else f"   ({'at least' if at_least else 'at most'} {bound:g}: {'ok' if held else 'FAIL'})"
        print(f"{part:<9} {name:<46} {value:>14.6g} {unit}{allowed}", flush=True)
        self.write()

    def write(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(self.results, indent=1) + "\n")

    def run(self, job, ranks, *settings):
        """A job on GPUs: its output. Ends the check with 71 where no GPU can be used."""
        words = [self.sluice, "run", job, "--set", "device.kind=cuda"]
        for setting in settings:
            words += ["--set", setting]
        if ranks > 1:
            words = [SOURCE / "tools/mpirun.sh", "-np", str(ranks), *words]
        try:
            done = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=self.limit)
        except subprocess.TimeoutExpired as expired:
            print(f"{(expired.stdout or b'').decode(errors='replace')[-4000:]}\n{job} was ended: it had not ended by itself after {self.limit} s")
            self.held = False
            return None
        if done.returncode == NO_GPU and "GPU" in done.stdout:
            reason = re.search(r"(device\.kind is .*|.*GPU.*)$", done.stdout, re.MULTILINE)
            stop(NO_GPU, f"built and linked, but nothing could be measured: {reason[0].strip() if reason else done.stdout}")
        if done.returncode != 0:
            print(done.stdout[-4000:])
            self.held = False
            return None
        return done.stdout

    def job(self, name, **tables):
        tables.setdefault("job", {})["output"] = str(self.directory / name)
        lines = []
        for table, keys in tables.items():
            lines.append(f"[{table}]")
            lines += [f"{key} = {json.dumps(value if isinstance(value, (int, float, bool, list)) else str(value))}"
                      for key, value in keys.items()]
        file = self.directory / f"{name}.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def metrics(self, name, *paths):
        import h5py  # only here: without it the program still runs
        with h5py.File(self.directory / name / "metrics.h5") as file:
            return [file[path][:] for path in paths]


def stop(code, text):
    print(f"gpu_check.sh: {text}", file=sys.stderr)
    sys.exit(code)


def check_seam(check):
    """Each operation on the GPU against this processor's, and what LibTorch has for a GPU alone against its formula."""
    done = subprocess.run([str(check.sluice.parent / "gpu_seam_test"), "--gtest_brief=1"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    failed = len(set(re.findall(r"^\[  FAILED  \] (\S+?),? ", done.stdout, re.MULTILINE)))
    if done.returncode != 0:
        print(done.stdout[-8000:])
        failed = max(1, failed)
    check.tell("seam", "operations that differ", failed, bound=0)


def check_fixtures(check):
    """Every fixture in float32 and bfloat16: losses of eight steps against transformers'. Most of such a job is its start, so
    several of one rank share a GPU."""
    import h5py
    runs = [(fixture, ranks, dtype, bound) for ranks in sorted({1, check.ranks})
            for fixture in sorted(path.parent for path in FIXTURES.glob("*/reference.h5"))
            for dtype, bound in (("float32", FLOAT32_BOUND), ("bfloat16", BFLOAT16_BOUND))]

    def run(fixture, ranks, dtype):
        tables = reference_job(fixture.name)
        tables["model"]["dtype"] = dtype
        tables.pop("debug")
        return check.run(check.job(f"{fixture.name}-{dtype}-{ranks}", **tables), ranks)

    with concurrent.futures.ThreadPoolExecutor(FIXTURES_AT_A_TIME if check.ranks == 1 else 1) as pool:
        started = [pool.submit(run, fixture, ranks, dtype) for fixture, ranks, dtype, _ in runs]
        for (fixture, ranks, dtype, bound), job in zip(runs, started):
            name = f"{fixture.name}-{dtype}-{ranks}"
            if job.result() is None:
                check.tell("fixtures", f"{name} failed", 1, bound=0)
                continue
            with h5py.File(fixture / "reference.h5") as reference:
                expected = reference["train/loss"][:]
            loss, = check.metrics(name, "train/loss")
            check.tell("fixtures", f"{name}, worst loss", float(abs(loss - expected).max()), bound=bound)


def large_checkpoint(check):
    """Written, not sparse, on a tmpfs where there is one."""
    shared = pathlib.Path("/dev/shm")
    room = shared if shared.is_dir() and os.statvfs(shared).f_bavail * os.statvfs(shared).f_frsize > 75e9 else check.directory
    model = room / "sluice-34.66B"
    if not (model / "config.json").exists():
        subprocess.run([str(check.sluice), "synthesize", str(SHAPE), str(model)], check=True)
    return model


def check_load(check):
    model = large_checkpoint(check)
    job = check.job("load", job={"kind": "load"}, model={"path": model, "dtype": "bfloat16"})
    if check.run(job, check.ranks) is None:
        return
    received, growth, seconds = check.metrics("load", "load/bytes_received", "load/peak_growth_bytes", "load/seconds")
    bytes_all = float(sum(file.stat().st_size for file in model.glob("*.safetensors")))
    check.tell("load", "bytes", bytes_all, "B")
    check.tell("load", "rate", bytes_all / float(max(seconds)) / 1e9, "GB/s", bound=LOAD_BYTES_PER_S / 1e9, at_least=True)
    check.tell("load", "host growth of a rank", float(max(growth)), "B", bound=LOAD_GROWTH_BYTES)
    check.tell("load", "bytes that a rank received", float(max(received)), "B")


def train(check, part, name, tables):
    """A few steps; medians of all but the first. Tokens a second over all ranks."""
    run = f"{part}-{name.replace(' ', '-')}"
    if check.run(check.job(run, **tables), check.ranks) is None:
        return check.tell(part, f"{name} failed", 1, bound=0)
    seconds, rates = (statistics.median(values[1:]) for values in check.metrics(run, "train/step_seconds", "train/tokens_per_second"))
    check.tell(part, f"{name}, a step", float(seconds), "s")
    check.tell(part, f"{name}, rate", float(rates), "tokens/s")
    return float(rates)


def training_tables(model, length, steps, mode):
    """Drawn weights, one sequence a step."""
    kind, state, master, gradients, clip = MODES[mode]
    return {"model": {"path": model, "dtype": "bfloat16", "init": "random"},
            "data": {"tokens": TOKENS, "sequence_length": length, "order": "sequential"},
            "train": {"steps": steps, "batch_sequences": 1, "micro_batch_sequences": 1},
            "optimizer": {"kind": kind, "state": state, "master": master, "gradients": gradients, "clip": clip}}


def check_modes(check):
    """A model of 1.3 B parameters in each low-memory mode."""
    config = json.loads((SHAPE / "config.json").read_text())
    text = config.get("text_config", config)
    text["num_hidden_layers"] = 4
    if "layer_types" in text:
        text["layer_types"] = text["layer_types"][:4]
    shape = check.directory / "four-layers"
    shape.mkdir()
    (shape / "config.json").write_text(json.dumps(config))
    for mode in MODES:
        train(check, "modes", mode, training_tables(shape, 512, 4, mode))


def check_step(check):
    """Steps of the whole model in the least memory: its weights' shape from config.json, drawn."""
    rate = train(check, "step", "34.66 B", training_tables(SHAPE, 512, 4, "adafactor none release"))
    peak = next((value for name, value in PEAKS.items() if name in check.results["machine"]["gpu"]), None)
    if rate and peak:
        check.tell("step", "MFU", 6 * ACTIVE_PARAMETERS * rate / peak / check.ranks)


def check_peer(check):
    if importlib.util.find_spec("transformers") is None:
        print("peer      transformers is not installed: not compared")
        return
    done = subprocess.run([sys.executable, SOURCE / "tools/gpu/peer_step.py", SHAPE, "512", "4"], text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        print("peer      transformers could not take a step on this shape")
        return
    for name, value in json.loads(done.stdout.splitlines()[-1]).items():
        check.tell("peer", name, value)


PARTS = {"seam": check_seam, "fixtures": check_fixtures, "load": check_load, "modes": check_modes, "step": check_step, "peer": check_peer}


def machine(check):
    """The GPUs, by the program itself: the first call that needs one."""
    job = check.job("first", **reference_job("qwen3-tiny-tied", train={"steps": 1}, debug={"dump": ""}))
    output = check.run(job, 1)
    if output is None:
        stop(1, "a first step on the GPU failed; what it said is above")
    gpu = re.search(r"^device +(.*)$", output, re.MULTILINE)
    check.results["machine"] = {"gpu": gpu[1] if gpu else "?", "date": datetime.date.today().isoformat(),
                                "version": subprocess.run([str(check.sluice), "--version"], text=True, stdout=subprocess.PIPE).stdout}
    print(f"machine   {check.results['machine']['gpu']}")


def gpu_count():
    try:
        import torch
        return max(1, torch.cuda.device_count())
    except ImportError:
        return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path, default=SOURCE / f"tools/bench/results/gpu-{datetime.date.today()}.json")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    parser.add_argument("--ranks", type=int, default=gpu_count())
    parser.add_argument("--limit", type=float, default=900, help="seconds that one run may take")
    parser.add_argument("--directory", help="for runs and models (default: the system's for temporary files)")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    check = Check(arguments)
    machine(check)
    for part in parts:
        began = time.monotonic()
        PARTS[part](check)
        print(f"{part:<9} took {time.monotonic() - began:.0f} s")
    check.write()
    print(f"written   {check.file}")
    sys.exit(0 if check.held else 1)


if __name__ == "__main__":
    main()
