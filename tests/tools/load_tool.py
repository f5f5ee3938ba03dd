"""Imports a program of tools/ that has no suffix."""
import importlib.machinery
import importlib.util
import pathlib
import sys

sys.dont_write_bytecode = True


def load_tool(name):
    path = pathlib.Path(__file__).resolve().parents[2] / "tools" / name
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
