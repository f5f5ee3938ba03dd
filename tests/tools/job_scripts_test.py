"""The job scripts of slurm/ with a srun that tells what it was asked for: which plugin starts the ranks."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "slurm"


class Starters(unittest.TestCase):
    def srun_words(self, script, **environment):
        """The words of the srun call that the script makes on a node of its own."""
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            srun = directory / "srun"
            srun.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{directory}/words\n', encoding="utf-8")
            srun.chmod(0o755)
            allocation = {"SLURM_SUBMIT_DIR": name, "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_NUM_NODES": "1",
                          "SLURM_JOB_CPUS_PER_NODE": "4(x3)", "SLURM_CPUS_PER_TASK": "4",
                          "PATH": f"{name}:{os.environ['PATH']}"}
            subprocess.run(["bash", SCRIPTS / script, "job.toml"], env=allocation | environment, check=True, capture_output=True)
            return (directory / "words").read_text(encoding="utf-8").splitlines()

    def test_pmix_starts_ranks_unless_another_plugin_is_named(self):
        for script in ("train.sbatch", "train-gpu.sbatch"):
            with self.subTest(script):
                self.assertIn("--mpi=pmix", self.srun_words(script))
                words = self.srun_words(script, SLUICE_MPI="pmi2")
                self.assertIn("--mpi=pmi2", words)
                self.assertEqual(words[-2:], ["run", "job.toml"])


if __name__ == "__main__":
    unittest.main()
