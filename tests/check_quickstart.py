#!/usr/bin/python3
"""What tools/quickstart.sh has made knows the book: run after it, from the root of the checkout (tools/test.sh --full does both).

    tests/check_quickstart.py [--sluice build/release/bin/sluice] [--run runs/quickstart] [--model models/quickstart]

At least 80 % of the words that the trained model writes are words of the book, for each of three seeds of the draws; and its loss on
the part of the book that was held out lies below that of a model that knows how often each token occurs in the rest, and nothing else.
"""
import argparse
import pathlib
import re
import subprocess
import sys

import h5py
import numpy

BOOK = pathlib.Path("configs/quickstart-model/moby-dick.txt")
SEEDS, TOKENS, LEAST_SHARE = (1, 2, 3), 160, 0.8


def words_of(text):
    return [word.lower() for word in re.findall(r"[A-Za-z]+(?:['’][A-Za-z]+)*", text)]


def written(arguments, seed):
    """Words, but for the last, which may be cut off."""
    result = subprocess.run([arguments.sluice, "generate", arguments.run / "model", "--prompt", "Call me Ishmael.", "--max-tokens", str(TOKENS),
                             "--temperature", "0.6", "--top-p", "0.9", "--seed", str(seed), "--ignore-eos"],
                            capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"check_quickstart: sluice generate ended with {result.returncode}:\n{result.stderr}")
    return words_of(result.stdout)[:-1]


def document_ends(tokens, begins):
    """Whether a token's successor belongs to another document, so that it is no target."""
    ends = numpy.zeros(len(tokens), bool)
    ends[begins[1:] - 1] = True
    return ends


def loss_of_frequencies(model):
    """Mean cross-entropy of the held-out targets, each token as probable as its share of the rest (and each at least once)."""
    with h5py.File(model / "book.holdout.h5") as file:
        tokens, begins = file["tokens"][:].astype(int), file["document_starts"][:].astype(int)
    with h5py.File(model / "book.h5") as file:
        counts = numpy.bincount(file["tokens"][:], minlength=tokens.max() + 1) + 1.0
    is_target = ~document_ends(tokens, begins)[:-1]
    return -numpy.log(counts[tokens[1:][is_target]] / counts.sum()).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, path in (("sluice", "build/release/bin/sluice"), ("run", "runs/quickstart"), ("model", "models/quickstart")):
        parser.add_argument(f"--{name}", type=pathlib.Path, default=pathlib.Path(path))
    arguments = parser.parse_args()
    book = set(words_of(BOOK.read_text(encoding="utf-8")))
    failures = []
    for seed in SEEDS:
        words = written(arguments, seed)
        share = sum(word in book for word in words) / max(1, len(words))
        print(f"seed {seed}: {share:.0%} of {len(words)} words are words of the book")
        if len(words) < TOKENS / 4 or share < LEAST_SHARE:
            failures.append(f"seed {seed}: {share:.0%} of {len(words)} words, expected {LEAST_SHARE:.0%} of {TOKENS // 4} at least")
    with h5py.File(arguments.run / "evaluation/metrics.h5") as file:
        loss = file["evaluate/total_loss"][0]
    alone = loss_of_frequencies(arguments.model)
    print(f"loss on what was held out: {loss:.3f}, of token frequencies alone {alone:.3f}")
    if not loss < alone:
        failures.append(f"held-out loss {loss:.3f}, expected less than {alone:.3f}")
    sys.exit("\n".join(failures) or None)


main()
