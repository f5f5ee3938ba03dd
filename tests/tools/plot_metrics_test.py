"""tools/plot_metrics draws finished, running and resumed runs, and says why it cannot."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import h5py
import numpy as np
from load_tool import load_tool

TOOL = load_tool("plot_metrics")
PNG = b"\x89PNG"


class PlotMetricsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, first, rows, allocated, kind="train"):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w") as file:
            file.attrs["world_size"] = 3
            file.attrs["job_toml"] = f'[job]\nkind = "{kind}"\n'
            for column in ("step", "loss", "tokens_per_second", "grad_norm", "learning_rate"):
                values = np.zeros(allocated)
                values[:rows] = np.arange(first, first + rows) + (0 if column == "step" else 0.5)
                file[f"train/{column}"] = values
                file[f"train/{column}"].attrs["units"] = "1"
        return path

    def plot(self, *words):
        with contextlib.redirect_stdout(io.StringIO()):
            TOOL.main([str(word) for word in words])

    def test_the_png_lies_beside_the_metrics(self):
        path = self.write("metrics.h5", 1, 8, 8)
        self.plot(path)
        self.assertEqual(path.with_suffix(".png").read_bytes()[:4], PNG)

    def test_output_may_be_in_a_new_folder(self):
        output = self.directory / "plots" / "a.png"
        self.plot(self.write("metrics.h5", 1, 100, 100), "-o", output)
        self.assertEqual(output.read_bytes()[:4], PNG)

    def test_preallocated_rows_are_not_drawn(self):
        columns, units, attributes = TOOL.read(self.write("metrics.h5", 1, 5, 64))
        np.testing.assert_array_equal(columns["step"], [1, 2, 3, 4, 5])
        np.testing.assert_array_equal(columns["loss"], [1.5, 2.5, 3.5, 4.5, 5.5])
        self.assertEqual((units["loss"], attributes["world_size"]), ("1", 3))

    def test_a_single_row_counts(self):
        self.assertEqual(len(TOOL.read(self.write("metrics.h5", 1, 1, 64))[0]["step"]), 1)

    def read_runs(self, *places):
        files = TOOL.runs_in(places)
        return [TOOL.read_run(paths, name) for paths, name in zip(files, TOOL.names_of(files))]

    def test_a_resumed_run_is_one_curve(self):
        first, second = self.write("metrics.h5", 1, 5, 8), self.write("metrics.0001.h5", 6, 5, 8)
        self.plot(first, second)
        self.assertTrue((self.directory / "metrics.png").exists())
        (run,) = self.read_runs(second, first)
        self.assertEqual(run.columns["step"].tolist(), list(range(1, 11)))

    def test_steps_that_were_done_again_count_once(self):
        (run,) = self.read_runs(self.write("metrics.h5", 1, 8, 8), self.write("metrics.0001.h5", 6, 5, 8))
        self.assertEqual(run.columns["step"].tolist(), list(range(1, 11)))
        self.assertEqual(run.columns["loss"].tolist(), [step + 0.5 for step in range(1, 11)])

    def test_two_runs_are_two_curves_with_a_legend(self):
        runs = self.read_runs(self.write("one/metrics.h5", 1, 5, 8), self.write("two/metrics.h5", 1, 8, 8))
        self.assertEqual([(run.name, len(run.columns["step"])) for run in runs], [("one", 5), ("two", 8)])
        figure = TOOL.draw(runs)
        self.addCleanup(TOOL.pyplot.close, figure)
        for axes in figure.axes:
            self.assertEqual([len(line.get_xdata()) for line in axes.lines], [5, 8])
        self.assertEqual([text.get_text() for text in figure.axes[0].get_legend().get_texts()], ["one", "two"])

    def test_runs_of_one_name_are_told_apart(self):
        first, second = (self.write(f"{parent}/run/metrics.h5", 1, 5, 8) for parent in "ab")
        self.assertEqual([run.name for run in self.read_runs(first, second)], [str(first.resolve()), str(second.resolve())])

    def test_a_run_directory_is_all_of_its_files(self):
        self.write("metrics.h5", 1, 5, 8)
        self.write("metrics.0001.h5", 6, 5, 8)
        (run,) = self.read_runs(self.directory)
        self.assertEqual(run.columns["step"].tolist(), list(range(1, 11)))
        self.plot(self.directory)
        self.assertTrue((self.directory / "metrics.png").exists())

    def test_a_directory_without_metrics_says_so(self):
        with self.assertRaisesRegex(SystemExit, "is a directory without a metrics.h5"):
            self.plot(self.directory)

    def test_an_evaluation_is_called_one(self):
        path = self.write("metrics.h5", 1, 0, 0, kind="evaluate")
        with h5py.File(path, "a") as file:
            file["evaluate/loss"] = np.ones(3)
        with self.assertRaisesRegex(SystemExit, "metrics.h5 holds an evaluation, .*no steps to draw"):
            self.plot(path)

    def test_a_job_that_takes_no_steps_is_named(self):
        with self.assertRaisesRegex(SystemExit, "a job of kind load, which takes no steps"):
            self.plot(self.write("metrics.h5", 1, 0, 0, kind="load"))

    def test_another_hdf5_file_is_no_metrics_file(self):
        path = self.directory / "tokens.h5"
        with h5py.File(path, "w") as file:
            file["tokens"] = np.zeros(4)
        with self.assertRaisesRegex(SystemExit, "tokens.h5 is no metrics file"):
            self.plot(path)

    def test_a_file_without_rows_says_so(self):
        with self.assertRaisesRegex(SystemExit, "no steps yet"):
            self.plot(self.write("metrics.h5", 1, 0, 0))

    def test_a_missing_file_is_named(self):
        with self.assertRaisesRegex(SystemExit, "nothing.h5"):
            self.plot(self.directory / "nothing.h5")


if __name__ == "__main__":
    unittest.main()
