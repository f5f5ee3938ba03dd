#!/usr/bin/env python3
"""Writes src/text/unicode/unicode_data.cpp: general categories of Unicode 16.0, normal forms of Unicode 9.0, lower-case letters.

    pip install --target DIR unicodedata2==16.0.0 tokenizers
    PYTHONPATH=DIR tools/unicode/make_tables.py src/text/unicode/unicode_data.cpp

These are the versions that the tokenizers library (0.23) works with: its regular expressions are Oniguruma's with
Unicode 16.0, its normal forms those of a crate that stopped at Unicode 9.0. What a character that existed in 9.0 decomposes
to has not changed since (Unicode's stability policy), so the newer database is read for those alone; perl knows their age.
Lower-case letters are what the library itself makes of every character.
"""
import subprocess
import sys

import unicodedata2 as unicode
from tokenizers import normalizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs Cn".split()
LAST = 0x10FFFF
HEADER = """// Written by tools/unicode/make_tables.py: change that.
#include "text/unicode/unicode_data.hpp"

namespace sluice::text::data {
"""


def existed_in_9():
    program = ("use Unicode::UCD qw(prop_invmap); my ($from, $age) = prop_invmap('Age');"
               "for my $i (0 .. $#$from) { print \"$from->[$i] $age->[$i]\\n\" }")
    lines = subprocess.run(["perl", "-e", program], check=True, capture_output=True, text=True).stdout.splitlines()
    starts = [(int(start), age) for start, age in map(str.split, lines)]
    known = set()
    for (start, age), (end, _) in zip(starts, starts[1:] + [(LAST + 1, "")]):
        major = age.lstrip("V").replace("_", ".").split(".")[0]
        if major.isdigit() and int(major) <= 9:
            known.update(range(start, end))
    return known


def runs(value_of):
    """(first code point, value) wherever the value changes."""
    found = []
    for code in range(LAST + 1):
        value = value_of(code)
        if not found or found[-1][1] != value:
            found.append((code, value))
    return found


def pair(code, known):
    """The canonical decomposition, one step, as (first, second or 0); None."""
    text = unicode.decomposition(chr(code))
    if code not in known or not text or text.startswith("<"):
        return None
    first, *second = (int(part, 16) for part in text.split())
    return first, second[0] if second else 0


def characters():
    """Every code point that text can hold: no surrogates."""
    return (code for code in range(LAST + 1) if not 0xD800 <= code <= 0xDFFF)


def compatible(known):
    """(code, what it decomposes to) where normal form KD differs from D."""
    for code in characters():
        text = chr(code)
        if code in known and unicode.normalize("NFKD", text) != unicode.normalize("NFD", text):
            yield code, unicode.normalize("NFKD", text)


def lower_case():
    """(code, what it is in lower case) where that differs."""
    lower = normalizers.Lowercase()
    for code in characters():
        small = lower.normalize_str(chr(code))
        if small != chr(code):
            yield code, small


def mappings(pairs):
    """Each as its code, the number of characters it becomes, and these."""
    return [hex(word) for code, text in pairs for word in (code, len(text), *map(ord, text))]


def array(kind, name, words):
    words = [f"{word}," for word in words]
    lines, line = [], "   "
    for word in words:
        if len(line) + 1 + len(word) > 109:
            lines.append(line)
            line = "   "
        line += " " + word
    lines.append(line)
    body = "\n".join(lines)
    return f"\n// clang-format off\nconst std::array<{kind}, {len(words)}> {name} = {{{{\n{body}\n}}}};\n// clang-format on\n"


def main():
    assert unicode.unidata_version == "16.0.0", unicode.unidata_version
    known = existed_in_9()
    categories = runs(lambda code: CATEGORIES.index(unicode.category(chr(code))))
    classes = runs(lambda code: unicode.combining(chr(code)) if code in known else 0)
    decompositions = []
    for code in range(LAST + 1):
        parts = pair(code, known)
        if parts:
            composes = unicode.normalize("NFC", chr(code)) == chr(code)
            decompositions.append(f"{{{code:#x}, {parts[0]:#x}, {parts[1]:#x}, {int(composes)}}}")
    text = HEADER
    text += array("std::uint32_t", "kCategoryRuns", [hex(code << 5 | value) for code, value in categories])
    text += array("std::uint32_t", "kCombiningRuns", [hex(code << 8 | value) for code, value in classes])
    text += array("Decomposition", "kDecompositions", decompositions)
    compatibility, lower = mappings(compatible(known)), mappings(lower_case())
    text += array("char32_t", "kCompatibilityMappings", compatibility)
    text += array("char32_t", "kLowerCaseMappings", lower)
    text += "\n}  // namespace sluice::text::data\n"
    open(sys.argv[1], "w").write(text)
    print(f"{len(categories)} {len(classes)} {len(decompositions)} {len(compatibility)} {len(lower)}")


main()
