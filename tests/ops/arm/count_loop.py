#!/usr/bin/python3
"""Counts the instructions of the innermost loop with the most multiplications in a disassembly.

    objdump -d --no-show-raw-insn FILE | count_loop.py INSTRUCTION NUMBERS MOST

Prints them for each multiplication of INSTRUCTION, of NUMBERS pairs of numbers, and ends with 1 if there are more than MOST, or if the
loop keeps something on the stack."""
import re
import sys


def loops(lines):
    """The instructions of each loop that holds no other: [(mnemonic, operands)]."""
    code = [(int(found[1], 16), found[2], found[3]) for line in lines
            if (found := re.match(r" *([0-9a-f]+):\t(\S+)\s*(.*)", line))]
    places = {address: i for i, (address, _, _) in enumerate(code)}
    for i, (address, name, operands) in enumerate(code):
        target = re.search(r"\b([0-9a-f]+) <", operands) if name.startswith(("b.", "cb", "tb")) else None
        begin = places.get(int(target[1], 16)) if target and int(target[1], 16) <= address else None
        if begin is not None and not any(name.startswith("b") and not name.startswith("bf") for _, name, _ in code[begin:i]):
            yield [(name, operands) for _, name, operands in code[begin:i + 1]]


def main():
    instruction, numbers, most = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    count = lambda loop: sum(name == instruction for name, _ in loop)  # noqa: E731
    best = max(loops(sys.stdin), key=count, default=[])
    if not count(best):
        sys.exit(f"count_loop: found no loop with {instruction}")
    each = len(best) / count(best)
    print(f"{instruction}: {len(best)} instructions in the loop, {count(best)} of them multiply {numbers} pairs of numbers each: {each:.2f} a multiplication")
    kept = [f"{name} {operands}" for name, operands in best if "[sp" in operands]
    if each > most or kept:
        sys.exit(f"count_loop: expected at most {most} and nothing kept on the stack, found {kept}")


main()
