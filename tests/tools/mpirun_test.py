"""tools/mpirun.sh chooses its flags by the launcher's version."""
import os
import pathlib
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "mpirun.sh"


class MpirunTest(unittest.TestCase):
    def launch(self, version, *words, status=0):
        """Runs the tool over a launcher that says it is `version`; returns the flags it got and its exit status."""
        with tempfile.TemporaryDirectory() as directory:
            launcher = pathlib.Path(directory, "launcher")
            launcher.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit\n'
                                f'echo "$OMPI_ALLOW_RUN_AS_ROOT" "$@"\nexit {status}\n', encoding="utf-8")
            launcher.chmod(0o755)
            result = subprocess.run([TOOL, *words], env=os.environ | {"MPIRUN": str(launcher)},
                                    capture_output=True, text=True, check=False)
            return result.stdout.split(), result.returncode

    def test_open_mpi_4_is_told_to_oversubscribe(self):
        flags, _ = self.launch("mpirun (Open MPI) 4.1.4", "-np", "3", "true")
        self.assertEqual(flags, ["1", "--bind-to", "none", "--oversubscribe", "-np", "3", "true"])

    def test_open_mpi_5_and_later_know_it_as_a_mapping(self):
        for version in ("mpirun (Open MPI) 5.0.7", "mpirun (Open MPI) 6.0.0rc2", "mpirun (Open MPI) 10.1"):
            flags, _ = self.launch(version, "-np", "2", "true")
            self.assertEqual(flags, ["1", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-np", "2", "true"])

    def test_another_mpi_gets_the_words_alone(self):
        flags, _ = self.launch("HYDRA build details: Version: 4.0.2", "-np", "2", "true")
        self.assertEqual(flags[-3:], ["-np", "2", "true"])
        self.assertNotIn("--bind-to", flags)

    def test_the_exit_status_of_the_job_comes_back(self):
        self.assertEqual(self.launch("mpirun (Open MPI) 4.1.4", "true", status=78)[1], 78)

    def test_a_missing_launcher_is_named(self):
        result = subprocess.run([TOOL, "true"], env=os.environ | {"MPIRUN": "no-such-launcher"},
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no-such-launcher", result.stderr)


if __name__ == "__main__":
    unittest.main()
