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
                self.assertTrue(table not in known or key in known[table] or f"{table}.{key}" in known, f"{page}: {table}.{key}")

    def test_exit_codes_are_those_of_the_program(self):
        codes = re.findall(r"^  k\w+ = (\d+),", read(ROOT / "src/base/error.hpp"), re.MULTILINE)
        rows = re.findall(r"^\| (\d+) \|", read(ROOT / "configs/guide/commands.md"), re.MULTILINE)
        self.assertEqual(rows, codes)

    def test_each_architecture_is_in_the_table_of_models(self):
        named = re.findall(r'^    Architecture\{"(\w+)"', read(ROOT / "src/model/architecture.cpp"), re.MULTILINE)
        self.assertTrue(named)
        text = read(ROOT / "configs/guide/models.md")
        self.assertEqual([name for name in named if f"`{name}`" not in text], [])


if __name__ == "__main__":
    unittest.main()
