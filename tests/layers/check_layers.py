"""Holds every #include of src/ and jobs/ against the layers, finds folders that include each other and printing outside
src/process/ and jobs/, and keeps what belongs to a processor in its folder: includes of its headers, and loops over the
elements of tensors. Which elements of a tensor lie where in whose arena is worked out in one place, and the bytes of
weights are read in few.

    check_layers.py SOURCE_ROOT                  prints FILE:LINE: what is wrong, and the lines of each folder beside those of lines.txt;
                                                 exit status 1 if anything is wrong
    check_layers.py SOURCE_ROOT --write-lines    writes lines.txt too
"""
import collections
import pathlib
import re
import sys

SIDE = ["config", "device", "comm", "io", "ops"]  # each stands on base alone, comm and ops on device too, ops on encoding
BELOW_WEIGHTS = ["model", "shard", "manifest", "io", "comm", "device", "encoding", "base"]
BELOW_EXPORT = ["weights", *BELOW_WEIGHTS]
BELOW_TRAIN = ["adapter", "load", "export", "verify", "metrics", "decoder", "plan", "corpus", "data", "text", "weights", "model", "shard", "manifest",
               *SIDE, "base"]

# folder: the folders it may include, besides itself. The order of the keys is the order of the layers, lowest first.
ALLOWED = {
    "base": [],
    "encoding": ["base"],
    "config": ["base"],
    "device": ["base"],
    "comm": ["device", "base"],
    "io": ["base"],
    "ops": ["device", "encoding", "base"],
    "process": ["comm", "io", "base"],
    "launch": ["process", "comm", "io", "base"],
    "manifest": ["base"],
    "shard": ["manifest", "device", "comm", "io", "encoding", "base"],
    "model": ["shard", "manifest", "comm", "io", "encoding", "base"],
    "weights": BELOW_WEIGHTS,
    "text": ["io", "base"],
    "data": ["config", "io", "comm", "base"],
    "corpus": ["text", "data", "weights", "io", "base"],
    "plan": ["model", "shard", "manifest", "encoding", "base"],
    "decoder": ["plan", "model", "shard", "manifest", "ops", "device", "base"],
    "adapter": ["text", *BELOW_EXPORT],
    "export": BELOW_EXPORT,
    "verify": BELOW_EXPORT,
    "load": ["verify", *BELOW_EXPORT, "config"],
    "metrics": ["io", "base"],
    "report": ["metrics", "io", "base"],
    "checkpoint": BELOW_TRAIN,
    "train": ["checkpoint", *BELOW_TRAIN],
    "generate": ["train", "decoder", "plan", "model", "shard", "manifest", "ops", "comm", "config", "base"],
    "job": ["train", "checkpoint", "report", "launch", "process", *(folder for folder in BELOW_TRAIN if folder not in ("ops", "decoder"))],
    "jobs": ["job", "generate", "train", "checkpoint", "process", *BELOW_TRAIN],
}

# Folders below src/ that include each other: a file directly in each includes one directly in the other. The list only shrinks: none may be
# added, and one that is gone must leave it.
MUTUAL = [
    ("checkpoint", "checkpoint/hosts"),
    ("comm", "comm/failure"),
    ("io", "io/blocks"),
    ("model", "model/blocks"),
    ("model", "model/families"),
    ("ops", "ops/adapters"),
    ("ops", "ops/experts"),
    ("ops", "ops/runtime"),
    ("ops/cpu", "ops/cpu/tiles"),
    ("ops/cpu", "ops/runtime"),
    ("ops/cpu/attention", "ops/runtime"),
    ("ops/device", "ops/runtime"),
    ("shard", "shard/stored"),
    ("train", "train/gradients"),
]

# (foreign library, its headers, the folders that may include them)
FOREIGN = [
    ("toml++", re.compile(r"toml\+\+/|toml\.hpp$"), {"config"}),
    ("MPI", re.compile(r"mpi\.h$|mpi-ext\.h$"), {"comm"}),
    ("NCCL", re.compile(r"nccl"), {"comm"}),
    ("CUDA", re.compile(r"cuda|cublas|driver_types\.h$"), {"device", "comm", "ops"}),
    ("HDF5", re.compile(r"hdf5|H5\w+\.h"), {"io"}),
    ("pcre2", re.compile(r"pcre2"), {"text"}),
    ("LibTorch", re.compile(r"(torch|ATen|c10|caffe2)/"), {"ops", "decoder", "train", "generate", "jobs"}),
]

PRINTING = re.compile(r"\bstd::(cout|cerr|clog|print|println)\b|\b(?:v?f?printf|f?puts|putchar)\s*\(|\bfmt::print(ln)?\b")
MAY_PRINT = ("src/process/", "jobs/")

# A processor's folder or the header that chooses one, the folders that may include them, and what only its files may do: read elements of tensors
# and share loops among threads.
PROCESSORS = ("ops/cpu/", "ops/device/", "ops/runtime/processor.hpp")
KNOW_PROCESSORS = ("src/ops/", "tests/ops/", "tests/other_device/", "tests/gpu/", "tools/bench/")
LOOPING = re.compile(r"\bdata_ptr<|\bparallel_for\b")

# What lies where in the ranks' arenas: src/shard/shard_plan.hpp tells it by owned_runs(), and src/shard/moves.hpp against a file.
PLACES = re.compile(r"\bFlatLayout::for_each_run\b|\bblock_stride\b|\barena_offset\s*\(")
KNOW_PLACES = ("src/shard/flat_layout.", "src/shard/shard_plan.", "src/shard/arena.cpp")

# Bytes of files by their place, as tensors are read: what lies where in which file is known to few, and all others ask these. Documents are
# no tensors, nor are files that go along with them or with a job.
READING = re.compile(r"(?:\.|->)read_at(?:_least)?\s*\(")
MAY_READ = ("src/io/", "src/corpus/", "src/weights/", "src/load/chunk_reader.cpp", "src/load/in_files/", "src/adapter/adapter_load.cpp", "src/checkpoint/block_reader.cpp",
            "src/checkpoint/save.cpp", "src/launch/handover.cpp")

# Lines of each folder when this was last written.
LINES = pathlib.Path(__file__).with_name("lines.txt")

# Newer versions of fmt do not bring it with <fmt/format.h>.
JOINING, RANGES = "fmt::join", "<fmt/ranges.h>"

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMMENT_OR_LITERAL = re.compile(
    r'''R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|//[^\n]*|/\*.*?\*/''', re.DOTALL)


def blank(match):
    """The matched text's line breaks alone, so that line numbers stay."""
    return "\n" * match[0].count("\n")


def without_comments(text):
    return COMMENT_OR_LITERAL.sub(lambda match: blank(match) if match[0][0] == "/" else match[0], text)


def without_literals(text):
    return COMMENT_OR_LITERAL.sub(blank, text)


def wrong_include(folder, quote, header):
    """Why `folder` may not include `header`, or None."""
    if quote == "<":
        for library, pattern, users in FOREIGN:
            if pattern.match(header) and folder not in users:
                return f"<{header}> is {library}, which only {', '.join(sorted(users))} may include"
        return None
    target, slash, _ = header.partition("/")
    if not slash or target == folder:
        return None
    if target not in ALLOWED:
        return f'"{header}": a foreign header is written <...>, and ALLOWED knows no folder {target}'
    if target not in ALLOWED[folder]:
        return f'"{header}": {folder} may include {", ".join(ALLOWED[folder]) or "nothing"}'
    return None


def check_text(folder, text):
    """Yields (line number, what is wrong)."""
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        include = INCLUDE.match(line)
        reason = include and wrong_include(folder, include[1], include[2])
        if reason:
            yield number, reason
    if RANGES not in text:
        for number, line in enumerate(without_literals(text).splitlines(), start=1):
            if JOINING in line:
                yield number, f"{JOINING} needs {RANGES}"


def check_printing(name, text):
    """The same of printing; `name` is the file's path from the root."""
    if not name.startswith(("src/", "jobs/")) or name.startswith(MAY_PRINT):
        return
    for number, line in enumerate(without_literals(text).splitlines(), start=1):
        printing = PRINTING.search(line)
        if printing:
            yield number, f"{printing[0].rstrip('( ')} prints, which only {' and '.join(MAY_PRINT)} do"


def check_processors(name, text):
    """The same of what belongs to a processor."""
    if name.startswith(tuple(f"src/{folder}" for folder in PROCESSORS)):
        return
    is_public = name.endswith(".hpp") and name.startswith("src/")
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        include = INCLUDE.match(line)
        if not include or not include[2].startswith(PROCESSORS):
            continue
        if not name.startswith(KNOW_PROCESSORS):
            yield number, f'"{include[2]}" belongs to a processor, whose headers only {", ".join(KNOW_PROCESSORS)} may include'
        elif is_public:
            yield number, f'"{include[2]}" belongs to a processor, and no header of src/ops/ outside may show it'
    if name.startswith(("src/", "jobs/")):
        for number, line in enumerate(without_literals(text).splitlines(), start=1):
            if LOOPING.search(line):
                yield number, f"loops over elements of tensors belong to a processor: src/{', src/'.join(PROCESSORS)}"


def check_places(name, text):
    """The same of places in arenas."""
    if not name.startswith(("src/", "jobs/")) or name.startswith(KNOW_PLACES):
        return
    for number, line in enumerate(without_literals(text).splitlines(), start=1):
        if PLACES.search(line):
            yield number, "places in arenas are worked out by ShardPlan::owned_runs() and for_each_move() alone"


def check_reading(name, text):
    """The same of tensors' bytes."""
    if not name.startswith(("src/", "jobs/")) or name.startswith(MAY_READ):
        return
    for number, line in enumerate(without_literals(text).splitlines(), start=1):
        if READING.search(line):
            yield number, "bytes of tensors are read by EntryReader, ChunkReader, UnitsInFiles and BlockFile alone"


def check_registers(root):
    """Yields what is wrong with the list of files that tests/ops compiles again with an imitation of tile registers: it must have all that
    include the registers' header, directly or not, or a program has both in one."""
    header, lists = "ops/cpu/tiles/registers.hpp", root / "src/ops/CMakeLists.txt"
    includes = {path.relative_to(root / "src").as_posix(): [match[2] for match in map(INCLUDE.match, read(path).splitlines()) if match]
                for path in sorted((root / "src/ops").rglob("*.[hc]pp"))}
    reaching, grown = {header}, True
    while grown:
        more = {file for file, names in includes.items() if file not in reaching and reaching.intersection(names)}
        reaching, grown = reaching | more, bool(more)
    listed = re.search(r"set\(register_files ([^)]*)\)", read(lists)) if lists.exists() else None
    listed = {f"ops/{name}" for name in listed[1].split()} if listed else set()
    for file in sorted({file for file in reaching if file.endswith(".cpp")} ^ listed):
        yield f"src/ops/CMakeLists.txt:1: register_files and what includes {header} differ in {file}"


def read(path):
    return path.read_text(encoding="utf-8")


def source_files(root):
    """Yields (layer, file). A file's layer is its folder directly below src/, or jobs."""
    for top in ("src", "jobs"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in {".hpp", ".cpp", ".h", ".cu", ".in"}:
                inside = path.relative_to(root / top)
                yield ("jobs" if top == "jobs" else inside.parts[0]), path


def check_mutual(root, listed):
    """Yields what is wrong with the listed pairs of folders that include each other."""
    included = collections.defaultdict(set)  # folder: what its files include, as FOLDER
    for _, path in source_files(root):
        if path.is_relative_to(root / "src"):
            headers = (match[2] for match in map(INCLUDE.match, without_comments(read(path)).splitlines()) if match and match[1] == '"')
            included[path.relative_to(root / "src").parent.as_posix()].update(header.rpartition("/")[0] for header in headers)
    found = {(one, other) for one in included for other in included[one] if one < other and one in included.get(other, ())}
    for one, other in sorted(found - set(listed)):
        yield f"src/{one}:1: a file there includes one of {other}, and one of {other} includes one there: expected that one of the two folders does without the other"
    for one, other in sorted(set(listed) - found):
        yield f"tests/layers/check_layers.py:1: {one} and {other} do not include each other any more; take them out of MUTUAL"


def check_tree(root, mutual=()):
    """Returns the violations as FILE:LINE: texts, and how many files were read. `mutual`: the pairs of folders that may include each other."""
    violations, count = list(check_mutual(root, mutual)), 0
    for folder, path in source_files(root):
        count += 1
        name = path.relative_to(root)
        if folder not in ALLOWED:
            violations.append(f"{name}:1: ALLOWED knows no folder {folder}; add it where it belongs")
            continue
        violations += [f"{name}:{number}: {reason}" for number, reason in check_text(folder, read(path))]
    for path in (file for top in ("src", "jobs", "tests", "tools") for file in sorted((root / top).rglob("*.[hc]pp"))):
        name = path.relative_to(root).as_posix()
        text = read(path)
        violations += [f"{name}:{number}: {reason}" for check in (check_printing, check_processors, check_places, check_reading) for number, reason in check(name, text)]
    return violations + list(check_registers(root)), count


def lines_of_folders(root):
    """Returns the lines of each folder's *.cpp and *.hpp."""
    lines = collections.Counter()
    for folder, path in source_files(root):
        if path.suffix in {".cpp", ".hpp"}:
            lines[folder] += read(path).count("\n")
    return lines


def lines_table(lines, before):
    """Yields a row for each folder, the longest first, and one for all: lines, and by how many they have changed."""
    for folder in sorted(lines | before, key=lambda folder: (-lines[folder], folder)):
        yield f"{folder:10} {lines[folder]:6} {lines[folder] - before[folder]:+6}"
    yield f"{'all':10} {lines.total():6} {lines.total() - before.total():+6}"


def main():
    root, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
    violations, count = check_tree(root, MUTUAL)
    for violation in violations:
        print(violation)
    lines = lines_of_folders(root)
    before = collections.Counter({folder: int(number) for folder, number in map(str.split, read(LINES).splitlines())})
    print("folder      lines change", *lines_table(lines, before), sep="\n")
    if "--write-lines" in options:
        LINES.write_text("".join(f"{folder} {lines[folder]}\n" for folder in sorted(lines)), encoding="utf-8")
    print(f"{count} files, {len(violations)} violations")
    sys.exit(1 if violations or not count else 0)


if __name__ == "__main__":
    main()
