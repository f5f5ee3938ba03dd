#include "config/key_aliases.hpp"

#include "base/error.hpp"
#include "config/job_config.hpp"
#include "config/least_job.hpp"
#include "config/schema.hpp"
#include "config/toml_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using test::kMinJob;
using testing::AllOf;
using testing::HasSubstr;

/// A value that the key takes and that is not its default.
std::string other_value(const Field& field) {
  for (const char* const text : {"3", "0.5"}) {
    JobConfig config;
    if (field.store(typed_value(text), config) && field.load(config) != field.load(JobConfig{})) return text;
  }
  return "";
}

TEST(KeyAliases, stand_for_keys_of_the_schema_and_are_none_themselves) {
  for (const KeyAlias& alias : key_aliases()) {
    const Table* table = find_table(alias.table);
    ASSERT_NE(table, nullptr) << alias.table;
    EXPECT_NE(find_field(*table, alias.key), nullptr) << alias.key;
    EXPECT_EQ(find_field(*table, alias.earlier), nullptr) << alias.earlier;
  }
}

TEST(KeyAliases, work_in_job_files_and_overrides) {
  for (const KeyAlias& alias : key_aliases()) {
    const Field& field = *find_field(*find_table(alias.table), alias.key);
    const std::string value = other_value(field);
    const std::string line =
        "[" + std::string(alias.table) + "]\n" + std::string(alias.earlier) + " = " + value;
    const Value expected = typed_value(value);
    EXPECT_EQ(field.load(parse_job_config(kMinJob + line + "\n", "job.toml")), expected) << line;
    const std::string set = std::string(alias.table) + "." + std::string(alias.earlier) + "=" + value;
    const std::string now = field.name() + "=" + toml_text(field.load(JobConfig{}));
    EXPECT_EQ(field.load(parse_job_config(kMinJob, "job.toml", std::vector<std::string>{now, set})), expected)
        << set;
  }
}

TEST(KeyAliases, beside_the_present_name_in_one_file_are_refused) {
  const std::string both = kMinJob + "[guard]\nmost_left_out = 3\nmax_skipped_steps = 4\n";
  try {
    static_cast<void>(parse_job_config(both, "job.toml"));
    FAIL() << "both names were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfig);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("job.toml:"), HasSubstr("guard.max_skipped_steps")));
  }
}

TEST(KeyAliases, translate_full_names_both_ways) {
  EXPECT_EQ(current_name("guard.most_left_out"), "guard.max_skipped_steps");
  EXPECT_EQ(current_name("train.steps"), "train.steps");
  EXPECT_EQ(current_name("data.source.weight"), "data.source.weight");
  EXPECT_EQ(current_name("positions"), "positions");
  EXPECT_EQ(earlier_name("generate.max_sequence_length"), "generate.positions");
  EXPECT_EQ(earlier_name("generate.max_tokens"), "generate.max_tokens");
}

}  // namespace
}  // namespace sluice
