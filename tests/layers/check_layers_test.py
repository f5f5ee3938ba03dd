"""The checker itself, on made-up trees."""
import collections
import pathlib
import tempfile
import unittest

import check_layers


class CheckLayersTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def violations(self):
        return check_layers.check_tree(self.root)[0]

    def assert_one(self, *parts):
        found = self.violations()
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_a_good_tree_has_no_violation(self):
        self.write("src/shard/plan.cpp", '#include "shard/plan.hpp"\n#include <vector>\n#include "base/error.hpp"\n')
        self.write("src/comm/mpi.cpp", "#include <mpi.h>\n")
        self.write("jobs/train.cpp", '#include "job/job.hpp"\n#include <torch/torch.h>\nfmt::print("hello");\n')
        self.assertEqual(check_layers.check_tree(self.root), ([], 3))

    def test_an_upward_include_is_named_with_file_and_line(self):
        self.write("src/base/error.cpp", '// first line\n#include "io/file.hpp"\n')
        self.assert_one("src/base/error.cpp:2:", "io/file.hpp")

    def test_side_libraries_do_not_know_each_other(self):
        self.write("src/io/file.cpp", '#include "comm/communicator.hpp"\n')
        self.assert_one("src/io/file.cpp:1:", "io may include base")

    def test_foreign_headers_outside_their_folder_are_found(self):
        headers = {"train": "mpi.h", "base": "toml++/toml.h", "load": "hdf5.h", "shard": "torch/torch.h",
                   "io": "cuda_runtime.h", "model": "nccl.h", "metrics": "H5Fpublic.h", "comm": "ATen/ATen.h"}
        for folder, header in headers.items():
            self.write(f"src/{folder}/a.hpp", f"#include <{header}>\n")
        self.assertEqual(len(self.violations()), len(headers))

    def test_printing_is_found_outside_of_what_may_print(self):
        calls = ["std::cout << 1;", 'printf("x");', 'std::fprintf(stderr, "x");', 'fmt::print("x");']
        for number, call in enumerate(calls):
            self.write(f"src/load/{number}.cpp", f"void f() {{ {call} }}\n")
            self.write(f"src/process/{number}.cpp", f"void f() {{ {call} }}\n")
        found = self.violations()
        self.assertEqual(len(found), len(calls), found)
        self.assertTrue(all(line.startswith("src/load/") for line in found))

    def test_folders_that_include_each_other_are_found_unless_they_are_listed(self):
        self.write("src/ops/cpu/rows.cpp", '#include "ops/matmul.hpp"\n')
        self.write("src/ops/cpu/tiles/block.cpp", '#include "ops/matmul.hpp"\n#include "ops/cpu/tiles/block.hpp"\n')
        self.write("src/ops/norm.cpp", '// #include "ops/cpu/tiles/block.hpp"\n#include "ops/cpu/rows.hpp"\n')
        self.assert_one("src/ops:", "ops/cpu")
        self.assertEqual(check_layers.check_tree(self.root, [("ops", "ops/cpu")])[0], [])

    def test_listed_folders_that_do_not_include_each_other_any_more_are_named(self):
        self.write("src/ops/norm.cpp", '#include "ops/cpu/rows.hpp"\n')
        found = check_layers.check_tree(self.root, [("ops", "ops/cpu")])[0]
        self.assertEqual(len(found), 1, found)
        self.assertIn("ops and ops/cpu", found[0])

    def test_comments_and_strings_are_not_code(self):
        self.write("src/base/a.cpp", '/* printf(1)\n#include "job/job.hpp" */\n// std::cout\nauto s = "printf(1) // no";\n'
                                     "snprintf(b, n, f);\nchar quote = '\"';  // printf(1) \"\n")
        self.assertEqual(self.violations(), [])

    def test_code_after_a_block_comment_keeps_its_line(self):
        self.write("src/base/a.cpp", '/* two\nlines */\nprintf("x");\n')
        self.assert_one("src/base/a.cpp:3:")

    def test_an_unknown_folder_is_a_violation(self):
        self.write("src/extra/a.hpp", "#pragma once\n")
        self.assert_one("src/extra/a.hpp:1:", "extra")

    def test_only_operations_their_tests_and_benchmarks_include_a_processors_headers(self):
        for name in ("src/ops/norm.cpp", "src/ops/runtime/library.cpp", "src/ops/cpu/norm_rows.hpp", "tests/ops/norm_test.cpp",
                     "tools/bench/limit.cpp"):
            self.write(name, '#include "ops/cpu/kernel.hpp"\n')
        self.assertEqual(self.violations(), [])
        for name in ("src/train/trainer.cpp", "tests/train/trainer_test.cpp", "jobs/train.cpp"):
            self.write(name, '#include "ops/cpu/kernel.hpp"\n')
        found = self.violations()
        self.assertEqual(len(found), 3, found)
        self.assertTrue(all("ops/cpu/kernel.hpp" in line and ":1:" in line for line in found))

    def test_no_public_header_of_operations_shows_a_processors_headers(self):
        self.write("src/ops/norm.hpp", '\n#include "ops/cpu/norm_rows.hpp"\n')
        self.assert_one("src/ops/norm.hpp:2:", "ops/cpu/norm_rows.hpp")

    def test_loops_over_elements_stand_in_a_processors_folder(self):
        loop = "at::parallel_for(0, x.numel(), 1, f);\nfloat* p = x.data_ptr<float>();  // data_ptr<float>\n"
        self.write("src/ops/cpu/norm_rows.cpp", loop)
        self.write("tests/ops/norm_test.cpp", loop)
        self.write("src/train/send.cpp", "comm.send(x.data_ptr());\n")
        self.assertEqual(self.violations(), [])
        self.write("src/ops/norm.cpp", loop)
        self.assertEqual([line.split(": ")[0] for line in self.violations()], ["src/ops/norm.cpp:1", "src/ops/norm.cpp:2"])

    def test_places_in_arenas_are_worked_out_in_one_place(self):
        walk = "FlatLayout::for_each_run(placement, 0, n, f);\nauto at = plan.arena_offset(unit, rank);  // arena_offset(\n"
        self.write("src/shard/shard_plan.cpp", walk)
        self.write("tests/shard/plan_test.cpp", walk)
        self.write("src/verify/digest.cpp", "plan.owned_runs(tensor, rank, f);\n")
        self.assertEqual(self.violations(), [])
        self.write("src/verify/digest.cpp", walk)
        self.assertEqual([line.split(": ")[0] for line in self.violations()], ["src/verify/digest.cpp:1", "src/verify/digest.cpp:2"])

    def test_weights_are_read_in_few_places(self):
        reads = "file.read_at(0, bytes);  // read_at(\nsource->file.read_at_least(1, 0, bytes);\nauto c = read_at(text, 1);\n"
        for name in ("src/weights/entry_reader.cpp", "src/load/chunk_reader.cpp", "src/io/file.cpp", "tests/io/file_test.cpp"):
            self.write(name, reads)
        self.assertEqual(self.violations(), [])
        self.write("src/load/load_sender.cpp", reads)
        self.write("jobs/train.cpp", "in->read_at(0, bytes);\n")
        self.assertEqual([line.split(": ")[0] for line in self.violations()],
                         ["src/load/load_sender.cpp:1", "src/load/load_sender.cpp:2", "jobs/train.cpp:1"])

    def test_every_file_with_tile_registers_is_listed_for_their_imitation(self):
        self.write("src/ops/cpu/tiles/block.hpp", '#include "ops/cpu/tiles/registers.hpp"\n')
        self.write("src/ops/cpu/tiles/matmul.cpp", '#include "ops/cpu/tiles/block.hpp"\n')
        self.write("src/ops/CMakeLists.txt", "set(register_files cpu/tiles/matmul.cpp)\n")
        self.assertEqual(self.violations(), [])
        self.write("src/ops/cpu/matmul.cpp", '#include "ops/cpu/tiles/block.hpp"\n')
        self.assert_one("src/ops/CMakeLists.txt:", "ops/cpu/matmul.cpp")

    def test_lists_are_joined_with_the_header_for_them(self):
        joins = 'auto text = fmt::format("{}", fmt::join(list, ", "));\n'
        self.write("src/base/text.cpp", "#include <fmt/ranges.h>\n" + joins)
        self.write("src/io/file.cpp", joins)
        self.assert_one("src/io/file.cpp:1:", "<fmt/ranges.h>")

    def test_the_growth_of_each_folder_is_told(self):
        self.write("src/io/file.cpp", "one\ntwo\n")
        self.write("src/io/blocks/ring.hpp", "three\n")
        self.write("src/io/notes.md", "no code\n")
        self.write("jobs/train.cpp", "one\n")
        rows = [row.split() for row in check_layers.lines_table(check_layers.lines_of_folders(self.root), collections.Counter(io=1, ops=5))]
        self.assertEqual(rows, [["io", "3", "+2"], ["jobs", "1", "+1"], ["ops", "0", "-5"], ["all", "4", "-2"]])

    def test_the_table_has_no_cycle(self):
        order = list(check_layers.ALLOWED)
        for folder, below in check_layers.ALLOWED.items():
            for other in below:
                self.assertLess(order.index(other), order.index(folder), f"{folder} -> {other}")


if __name__ == "__main__":
    unittest.main()
