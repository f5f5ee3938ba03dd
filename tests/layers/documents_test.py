"""README.md is short, the guide is pages that can be read, and what the documents link to or name exists."""
import pathlib
import re
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "configs/guide").glob("*.md"))
DOCUMENTS = PAGES + [ROOT / name for name in ("README.md", "src/README.md", "src/ops/README.md", "configs/README.md", "configs/GUIDE.md",
                                              "slurm/README.md", "tests/README.md", "tools/bench/README.md", ".github/CONTRIBUTING.md")]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
NAMED_FILE = re.compile(r"`((?:src|jobs|configs|slurm|tests|tools)/[\w./-]+\.\w+)`")
# How the code names the id of a failure: in braces behind an exit code, as a FailureId, or as one of a choice.
ID = re.compile(r'''[{(]\s*(?:ExitCode::(k\w+)|code|doing\.code|ending|exit_code),\s*"(\w+\.\w+)"\s*[})]|kLost\w+ = "(\w+\.\w+)"|kUsageId = "(\w+\.\w+)"|'''
                r'''(?:entry\.where|row\.where|place->second|file_name_),\s*"(\w+\.\w+)"|is_full \? "(\w+\.\w+)" : "(\w+\.\w+)"''')
JOB_FILE = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def read(document):
    return document.read_text(encoding="utf-8")


def anchors(document):
    """Anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", read(document), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(document, path, anchor):
    target = document.parent / path if path else document
    return not target.exists() or bool(anchor) and anchor not in anchors(target)


def job_keys():
    """Keys of a job file by their tables, as configs/README.md lists them."""
    tables = re.split(r"^### `\[+([\w.]+)\]+`$", read(ROOT / "configs/README.md"), flags=re.MULTILINE)[1:]
    return {name: set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) for name, text in zip(tables[::2], tables[1::2])}


def exit_codes():
    return dict(re.findall(r"^  (k\w+) = (\d+),", read(ROOT / "src/base/error.hpp"), re.MULTILINE))


def ids_in_code():
    """Ids of failures, each with the exit codes that the code gives with them as constants."""
    codes, found = exit_codes(), {}
    for source in [*(ROOT / "src").rglob("*.?pp"), *(ROOT / "jobs").rglob("*.?pp")]:
        for code, *names in ID.findall(read(source)):
            name = "".join(names[:4]) or None
            for one in filter(None, [name, *names[4:]]):
                found.setdefault(one, set()).update([codes[code]] if code in codes else [])
    return found


def ids_in_guide():
    rows = re.findall(r"^\| `(\w+\.\w+)` \| ([\d, +n]+) \|", read(ROOT / "configs/guide/messages.md"), re.MULTILINE)
    return {name: set(codes.split(", ")) for name, codes in rows}


class Documents(unittest.TestCase):
    def test_the_readme_has_at_most_120_lines(self):
        self.assertLessEqual(len(read(ROOT / "README.md").splitlines()), 120)

    def test_links_and_named_files_exist(self):
        for document in DOCUMENTS:
            text = read(document)
            missing = ["#".join(link) for link in LINK.findall(text) if is_broken(document, *link)]
            missing += [name for name in NAMED_FILE.findall(text) if not (ROOT / name).exists() and not name.endswith("NAME.cpp")]
            self.assertEqual(missing, [], document)


class Guide(unittest.TestCase):
    def test_pages_are_short_and_begin_with_an_example(self):
        for page in PAGES:
            lines = read(page).splitlines()
            self.assertLessEqual(len(lines), 200, page)
            self.assertEqual([line for line in lines if len(line) > 110], [], page)
            self.assertRegex("\n".join(lines[:3]), r"\A# .*\n\n(    sluice |    tools/|```toml)", page)

    def test_guide_names_each_page(self):
        for page in PAGES:
            self.assertIn(f"(guide/{page.name})", read(ROOT / "configs/GUIDE.md"))

    def test_examples_and_text_use_keys_that_exist(self):
        known = job_keys()
        for page in PAGES:
            for table, keys in [item for job in JOB_FILE.findall(read(page)) for item in tomllib.loads(job).items()]:
                self.assertLessEqual(set(keys), known[table], page)
            for table, key in re.findall(r"(?:`|--set )(\w+)\.(?!toml|h5)(\w+)(?:`|=| =)", read(page)):
                name = f"{table}.{key}"
                self.assertTrue(table not in known or key in known[table] or name in known or name in ids_in_guide(), f"{page}: {name}")

    def test_exit_codes_are_those_of_the_program(self):
        rows = re.findall(r"^\| (\d+) \|", read(ROOT / "configs/guide/commands.md"), re.MULTILINE)
        self.assertEqual(rows, list(exit_codes().values()))

    def test_ids_of_failures_are_those_of_the_code(self):
        code, guide = ids_in_code(), ids_in_guide()
        self.assertEqual(sorted(guide), sorted(code))
        for name, codes in code.items():
            self.assertLessEqual(codes, guide[name], name)

    def test_each_architecture_is_in_the_table_of_models(self):
        named = re.findall(r'^    Architecture\{"(\w+)"', read(ROOT / "src/model/architecture.cpp"), re.MULTILINE)
        self.assertTrue(named)
        text = read(ROOT / "configs/guide/models.md")
        self.assertEqual([name for name in named if f"`{name}`" not in text], [])


if __name__ == "__main__":
    unittest.main()
