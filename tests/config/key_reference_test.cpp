// configs/README.md is written from the schema, and must say what the schema says.
#include "config/job_config.hpp"
#include "config/key_aliases.hpp"
#include "support/source_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace sluice {
namespace {

const std::filesystem::path kPath = source_folder() / "configs/README.md";

/// A sentence that names each renamed key under both names.
std::string alias_text() {
  std::string out = "Keys that have been renamed still work under their earlier names:";
  for (const KeyAlias& alias : key_aliases())
    out += fmt::format("{}\n`{}.{}` is now `{}`", out.ends_with(':') ? "" : ",", alias.table, alias.earlier,
                       alias.key);
  return out + ".\n\n";
}

std::string key_reference() {
  return "# Job files\n\nEvery `.toml` here is checked by a test. Below is every key of a job file. A key "
         "that is left out has its "
         "default, a key that\nis not listed is an error, and `--set table.key=value` replaces one on the "
         "command line. A size is "
         "a text with its unit:\n`\"8MiB\"` is 8 x 2^20 bytes, `\"8MB\"` 8 x 10^6; the B may be left out. "
         "Paths are relative to "
         "the directory in which the job is\nstarted.\n\nThis page is generated: "
         "`SLUICE_REWRITE=1 build/release/bin/config_test --gtest_filter='KeyReference.*'` writes it "
         "anew.\n\n" +
         alias_text() + schema_markdown();
}

TEST(KeyReference, says_what_the_schema_says) {
  if (std::getenv("SLUICE_REWRITE") != nullptr) std::ofstream(kPath) << key_reference();
  std::ifstream file(kPath);
  const std::string found{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(found, key_reference())
      << "write it anew: SLUICE_REWRITE=1 config_test --gtest_filter='KeyReference.*'";
}

}  // namespace
}  // namespace sluice
