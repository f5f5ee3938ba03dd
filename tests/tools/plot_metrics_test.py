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

    def write(self, name, first, rows, allocated):
        path = self.directory / name
        with h5py.File(path, "w") as file:
            file.attrs["world_size"] = 3
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

    def test_a_resumed_run_is_one_curve(self):
        self.plot(self.write("metrics.h5", 1, 5, 8), self.write("metrics.0001.h5", 6, 5, 8))
        self.assertTrue((self.directory / "metrics.png").exists())

    def test_a_file_without_rows_says_so(self):
        with self.assertRaisesRegex(SystemExit, "no steps yet"):
            self.plot(self.write("metrics.h5", 1, 0, 0))

    def test_a_missing_file_is_named(self):
        with self.assertRaisesRegex(SystemExit, "nothing.h5"):
            self.plot(self.directory / "nothing.h5")


if __name__ == "__main__":
    unittest.main()
