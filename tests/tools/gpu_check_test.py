"""tools/gpu_check.sh on a machine without a GPU: how far it comes, and what it says."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NO_GPU = """print('sluice: rank 0 of 1 failed, so the job ends with exit code 71:')
print('  device.kind is "cuda", but no GPU can be used: no CUDA-capable device is detected')
sys.exit(71)"""
# Prints what a run prints, and leaves what it leaves.
TRAINS = """import h5py, pathlib, tomllib
job = tomllib.loads(pathlib.Path(sys.argv[2]).read_text())
print('device    Some GPU')
run = pathlib.Path(job['job']['output'])
run.mkdir(parents=True)
with h5py.File(run / 'metrics.h5', 'w') as file:
    file['train/step_seconds'] = [9.0, 0.5, 0.25, 0.25]
    file['train/tokens_per_second'] = [1.0, 1000.0, 2000.0, 2000.0]"""


def run(*words, **environment):
    return subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100,
                          env=os.environ | environment)


class GpuCheck(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def program(self, name, text):
        path = self.directory / name
        path.write_text(f"#!{sys.executable}\nimport sys\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def check(self, sluice, *words):
        return run(sys.executable, SOURCE / "tools/gpu/check.py", "--sluice", self.program("sluice", sluice), "--json",
                   self.directory / "out.json", "--directory", self.directory, "--ranks", 1, *words)

    def test_a_machine_without_a_gpu_is_told_in_one_line(self):
        done = self.check(NO_GPU)
        self.assertEqual(done.returncode, 71, done.stdout)
        self.assertEqual(done.stdout, "gpu_check.sh: built and linked, but nothing could be measured: device.kind is \"cuda\", "
                         "but no GPU can be used: no CUDA-capable device is detected\n")

    def test_numbers_are_printed_and_written(self):
        done = self.check(TRAINS, "--only", "modes")
        self.assertEqual(done.returncode, 0, done.stdout)
        results = json.loads((self.directory / "out.json").read_text())
        self.assertEqual(results["machine"]["gpu"], "Some GPU")
        self.assertEqual(results["modes"]["lion int8 none release, a step"], 0.25)  # of the steps but the first
        self.assertEqual(results["modes"]["lion int8 none release, rate"], 2000)
        self.assertIn("lion int8 none release, rate", done.stdout)

    def test_a_job_that_fails_fails_the_check(self):
        done = self.check(TRAINS + "\nsys.exit(70 if 'modes' in str(run) else 0)", "--only", "modes")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("failed", done.stdout)

    def test_what_is_missing_is_named_before_anything_is_built(self):
        self.program("python3", "sys.exit('no torch here')")
        done = run(SOURCE / "tools/gpu_check.sh", PATH=f"{self.directory}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("has no torch: install PyTorch's CUDA wheel", done.stdout)

    def test_unknown_words_are_a_usage_error(self):
        self.assertEqual(run(SOURCE / "tools/gpu_check.sh", "--what").returncode, 64)
        self.assertEqual(self.check(NO_GPU, "--only", "nothing").returncode, 2)


if __name__ == "__main__":
    unittest.main()
