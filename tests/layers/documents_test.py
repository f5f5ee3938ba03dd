"""README.md is short, and what the documents link to or name exists."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / name for name in ("README.md", "src/README.md", "src/ops/README.md", "configs/README.md", "configs/GUIDE.md", "slurm/README.md",
                                      "tests/README.md", "tools/bench/README.md", ".github/CONTRIBUTING.md")]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
NAMED_FILE = re.compile(r"`((?:src|jobs|configs|slurm|tests|tools)/[\w./-]+\.\w+)`")


class Documents(unittest.TestCase):
    def test_the_readme_has_at_most_120_lines(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()), 120)

    def test_links_and_named_files_exist(self):
        for document in DOCUMENTS:
            text = document.read_text(encoding="utf-8")
            missing = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
            missing += [name for name in NAMED_FILE.findall(text) if not (ROOT / name).exists() and not name.endswith("NAME.cpp")]
            self.assertEqual(missing, [], document)


if __name__ == "__main__":
    unittest.main()
