"""tests/FAULTS.md names a test, or says that there is none, for each of its rows."""
import pathlib
import re
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]


class FaultsTable(unittest.TestCase):
    def setUp(self):
        lines = (TESTS / "FAULTS.md").read_text().splitlines()
        self.rows = [line.split("|") for line in lines if re.match(r"\| \d", line)]

    def test_has_every_row_once(self):
        numbers = [int(number) for row in self.rows for number in row[1].split(",")]
        self.assertEqual(numbers, list(range(1, 47)))

    def test_every_row_names_tests_that_are_there_or_says_what_is_not_held(self):
        for row in self.rows:
            tests = re.findall(r"`(\S+\.(?:py|cpp)) (\w+)`", row[3])
            self.assertTrue(tests or "not held" in row[3], row)
            for file, name in tests:
                with self.subTest(file=file, name=name):
                    self.assertRegex((TESTS / file).read_text(), rf"\b{name}\b")


if __name__ == "__main__":
    unittest.main()
