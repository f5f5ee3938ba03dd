#!/usr/bin/python3
"""Opens a metrics.h5 the plain way, and prints its number of complete rows.

    read_metrics.py METRICS_H5

Fails unless every dataset describes itself and the rows are those that metrics_writer_test.cpp writes.
"""
import sys

import h5py
import numpy


def check_descriptions(file):
    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            assert item.attrs["units"] and item.attrs["description"], name

    file.visititems(visit)


def main(path):
    with h5py.File(path, "r") as file:
        for name in ("format_version", "program", "git_revision", "job_toml", "structure_hash", "world_size"):
            assert name in file.attrs, name
        assert isinstance(file.attrs["job_toml"], str)
        check_descriptions(file)
        rows = file["train/step"].shape[0]
        steps = numpy.arange(1, rows + 1)
        assert (file["train/step"][:] == steps).all()
        assert (file["train/loss"][:rows] == 1.0 / steps).all()
        tokens = file["moe/expert_tokens"][:rows]
        assert (tokens.reshape(rows, -1) == numpy.outer(steps, numpy.arange(tokens[0].size))).all()
    print(rows)


if __name__ == "__main__":
    main(sys.argv[1])
