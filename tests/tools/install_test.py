"""The installed program, moved away from where it was installed, as an ordinary user with a read-only prefix and no HOME; its
manual pages and completions held against --help; a program that links the installed libraries."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["SLUICE_BUILD"])
FIXTURE = SOURCE / "tests/fixtures/qwen3-moe-tiny"
PARAMETERS = 362_624


def version():
    return re.search(r"project\(sluice VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def ordinary_user():
    """What subprocess takes to leave root's rights behind, for a user without a name or a home, as containers have them."""
    return {"user": 54321, "group": 54321, "extra_groups": []} if os.geteuid() == 0 else {}


class Installed(unittest.TestCase):
    component = "program"

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        directory = pathlib.Path(cls.temporary.name)
        directory.chmod(0o755)
        first, cls.prefix, cls.work = directory / "installed", directory / "moved here", directory / "work"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", first, "--component", cls.component], check=True, capture_output=True)
        first.rename(cls.prefix)
        cls.work.mkdir()
        cls.work.chmod(0o777)

    def run_installed(self, *words):
        result = subprocess.run([self.prefix / "bin/sluice", *words], cwd=self.work, env={"PATH": "/usr/bin:/bin"}, **ordinary_user(),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def texts(self):
        """Every installed file that is a text, by its path in the prefix."""
        found = {}
        for path in self.prefix.rglob("*"):
            if path.is_file():
                try:
                    found[path.relative_to(self.prefix).as_posix()] = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    pass  # a program or an archive
        return found


class Program(Installed):
    def test_the_version_is_that_of_the_project(self):
        self.assertTrue(self.run_installed("--version").startswith(f"sluice {version()} ("))

    def test_a_training_runs_from_it(self):
        shutil.copytree(FIXTURE, self.work / "model", dirs_exist_ok=True)
        job = self.work / "job.toml"
        job.write_text('[job]\nkind = "train"\noutput = "run"\n[model]\npath = "model"\n[data]\ntokens = "model/reference.h5"\n'
                       'sequence_length = 48\n[train]\nsteps = 2\nbatch_sequences = 2\n[checkpoint]\nevery_minutes = 0\n',
                       encoding="utf-8")
        self.run_installed("synthesize", "model", "drawn")
        self.assertIn("step 2/2", self.run_installed("launch", "-n", "2", "job.toml", "--", "--oversubscribe"))

    def test_no_text_names_the_source_tree_or_the_first_prefix(self):
        for name, text in self.texts().items():
            self.assertNotIn(str(SOURCE), text, name)
            self.assertNotIn(f"{self.temporary.name}/installed", text, name)

    def test_every_page_of_the_guide_is_installed(self):
        pages = [page.relative_to(SOURCE).as_posix() for page in (SOURCE / "configs").rglob("*.md")]
        self.assertEqual([page for page in pages if not (self.prefix / "share/sluice" / page).exists()], [])

    def test_job_scripts_run_the_program_that_path_names(self):
        scripts = [text for name, text in self.texts().items() if name.endswith(".sbatch")]
        self.assertEqual(len(scripts), 3)
        for text in scripts:
            self.assertIn("sluice=${SLUICE:-sluice}\n", text)


class Descriptions(Installed):
    """Every command and option of --help is in the manual pages and in both completions."""

    def commands(self, path=()):
        """Yields (words of a command, its options) for the program and all of its commands."""
        text = self.run_installed(*path, "--help").split("\nKeys of a job file")[0]
        options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", "\n".join(re.findall(r"^ {2,4}(-\S+)", text, re.MULTILINE))))
        yield path, options
        for name in re.findall(r"^  ([a-z]+) ", text.partition("\nSubcommands:")[2], re.MULTILINE):
            yield from self.commands((*path, name))

    def test_all_of_help_is_described(self):
        pages = {name: text.replace("\\-", "-") for name, text in self.texts().items() if name.startswith("share/man/")}
        bash = (self.prefix / "share/bash-completion/completions/sluice").read_text(encoding="utf-8")
        zsh = (self.prefix / "share/zsh/site-functions/_sluice").read_text(encoding="utf-8")
        commands = dict(self.commands())
        self.assertGreater(len(commands), 20)
        self.assertEqual(len(pages), len(commands))
        for path, options in commands.items():
            with self.subTest(path):
                page = pages[f"share/man/man1/{'-'.join(('sluice', *path))}.1"]
                function = zsh.partition(f"\n{'_'.join(('_sluice', *path))}() {{\n")[2].partition("\n}\n")[0]
                words = re.search(rf'^    "{" ".join(("sluice", *path))}"\)\n.*words="([^"]*)"; else', bash, re.MULTILINE)[1].split()
                self.assertTrue(options)
                self.assertEqual(options, set(words))
                for option in options:
                    self.assertRegex(page, rf"(?m)^\\fB.*{option}\b")
                    self.assertIn(f"'*{option}[", function)

    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; printf "%s\\n" "${COMPREPLY[@]}"')
        made = self.prefix / "share/bash-completion/completions/sluice"
        return subprocess.run(["bash", "-uc", script, "bash", made, *words], check=True, capture_output=True, text=True).stdout.split()

    def test_bash_completes_commands_options_and_their_words(self):
        self.assertEqual(self.complete("sluice", "tok"), ["tokenize"])
        self.assertEqual(self.complete("sluice", "checkpoint", "ex"), ["export"])
        self.assertEqual(self.complete("sluice", "checkpoint", "export", "run", "--me"), ["--merge"])
        self.assertEqual(self.complete("sluice", "tokenize", "--reasoning", ""), ["drop", "keep"])
        self.assertEqual(self.complete("sluice", "run", "job"), [])


class Development(Installed):
    component = "development"

    def test_a_program_links_the_libraries(self):
        texts = self.texts()
        for name in (name for name in texts if "/cmake/" in name):
            self.assertNotIn(str(SOURCE), texts[name], name)
        build = self.work / "build"
        for words in (["-S", SOURCE / "tests/tools/consumer", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                      ["--build", build]):
            result = subprocess.run(["cmake", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stdout)
        mpirun = subprocess.run([SOURCE / "tools/mpirun.sh", "-np", "2", build / "consumer", FIXTURE], check=True, capture_output=True, text=True)
        self.assertEqual(mpirun.stdout, f"{PARAMETERS} parameters on 2 ranks\n")
        alone = subprocess.run([build / "torch_consumer"], check=True, capture_output=True, text=True)
        self.assertEqual(alone.stdout, "LibTorch on 1 thread\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
