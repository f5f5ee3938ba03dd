#include "config/schema.hpp"

#include "config/least_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace sluice {
namespace {

using test::kMinJob;
using testing::HasSubstr;

/// Every key away from its default, wherever this version has a choice.
constexpr const char* kOther = R"(
[job]
kind = "load"
output = "runs/\"quoted\" \\ ä"
overwrite = true
[model]
path = "/models/a b"
dtype = "float32"
step = 7
init_seed = 9223372036854775807
adapter = "adapter"
[parallel]
expert_parallel = 2
replicas = 2
threads = 3
frozen = "kept"
reduce = "bfloat16"
dispatch = "int8"
vocabulary = "sharded"
[load]
readers = "all"
verify = true
chunk = "1000001B"
page_cache = "drop"
unified_memory = true
memory_limit = "64MiB"
[data]
answer = "rejected"
tokens = "t.h5"
sequence_length = 7
seed = 1
order = "sequential"
source = [{tokens = "u.h5", weight = 2.5}, {tokens = "v w.h5"}]
separator_token = 3
pack = true
pack_window = 77
long_documents = "cut"
[evaluate]
tokens = ["a.h5", "b c.h5"]
every_steps = 5
patience = 3
[train]
steps = 3
batch_sequences = 1
micro_batch_sequences = 2
recompute = "none"
aux_loss_coefficient = 0.3333333333333333
aux_loss_scope = "layer"
router_z_loss = 0.0001
router_bias_update_rate = 0.001
freeze = ["*.norm.*", "lm_head.weight"]
[lora]
rank = 8
alpha = 16
dropout = 0.05
targets = ["q_proj", "*.experts.*"]
rslora = true
seed = 2
start = "adapter"
[optimizer]
learning_rate = 1
gradients = "bfloat16"
clip = "unit"
seed = 5
betas = [0, 0.1]
eps = 1e-12
weight_decay = 0
max_grad_norm = 0.1
[memory]
limit = "4GiB"
offload = "disk"
offload_path = "scratch"
[device]
kind = "cpu"
[schedule]
kind = "linear"
warmup_steps = 3
final_factor = 0.1
[prefer]
loss = "ipo"
beta = 0.2
label_smoothing = 0.1
sft_weight = 0.5
reference = "base"
[generate]
prompts = "p.jsonl"
output = "o.jsonl"
every_steps = 7
max_tokens = 5
max_sequence_length = 99
batch_sequences = 2
prefill_tokens = 64
products = "int8"
temperature = 0.5
top_k = 3
top_p = 0.9
min_p = 0.1
repetition_penalty = 1.1
seed = 4
stop = ["\n", "the end"]
chat = true
ignore_eos = true
[export]
path = "out"
max_shard_size = "1234567891B"
format = "source"
experts = "fused"
adapters = "merge"
[checkpoint]
storage = "node"
partner_copies = 0
every_steps = 7
every_minutes = 2.5
keep = 3
keep_every = 70
path = "saved"
resume = 14
on_failure = "stop"
margin_seconds = 90
[guard]
on_nonfinite = "skip"
on_spike = "rewind"
spike_factor = 10
spike_window = 5
max_skipped_steps = 3
compare_ranks_every = 2
[score]
file = "s.h5"
tokens = true
distribution = "top"
samples = 4
temperature = 2.0
top = 5
seed = 3
[distil]
weight = 0.25
temperature = 2.0
[metrics]
file = "m.h5"
log_every = 7
[trace]
steps = "10-12"
[debug]
dump = "d.h5"
[deadline]
setup_seconds = 1
load_seconds = 0.1
save_seconds = 7
step_seconds = 3.5
evaluate_seconds = 5
finish_seconds = 4
)";

std::vector<Field> all_fields() {
  std::vector<Field> fields;
  for (const Table& table : schema()) fields.insert(fields.end(), table.fields.begin(), table.fields.end());
  return fields;
}

TEST(Schema, has_help_for_every_table_and_key) {
  for (const Table& table : schema()) EXPECT_FALSE(table.help.empty()) << table.name;
  for (const Field& field : all_fields()) {
    EXPECT_FALSE(field.help.empty()) << field.name();
    EXPECT_FALSE(field.expected.empty()) << field.name();
  }
}

TEST(Schema, names_every_key_once) {
  std::set<std::string> names;
  for (const Field& field : all_fields()) EXPECT_TRUE(names.insert(field.name()).second) << field.name();
}

TEST(Schema, requires_only_what_has_no_default) {
  std::set<std::string> required;
  for (const Field& field : all_fields())
    if (field.required) required.insert(field.name());
  EXPECT_EQ(required, (std::set<std::string>{"job.output", "model.path"}));
}

TEST(Schema, writes_each_key_to_a_member_of_its_own) {
  const JobConfig other = parse_job_config(kOther, "job.toml");
  for (const Field& field : all_fields()) {
    JobConfig config;
    ASSERT_TRUE(field.store(field.load(other), config)) << field.name();
    for (const Field& another : all_fields()) {
      if (another.name() == field.name()) continue;
      EXPECT_EQ(another.load(config), another.load(JobConfig{}))
          << field.name() << " changes " << another.name();
    }
  }
}

TEST(Document, resolved_text_reads_back_to_the_same_job) {
  for (const std::string& text : {kMinJob, std::string(kOther)}) {
    const JobConfig config = parse_job_config(text, "job.toml");
    const JobConfig again = parse_job_config(to_toml(config), "resolved.toml");
    EXPECT_EQ(to_toml(again), to_toml(config));
  }
}

TEST(Document, resolved_text_has_a_header_line_per_table) {
  const std::string text = to_toml(parse_job_config(kMinJob, "job.toml"));
  EXPECT_EQ(text.substr(0, text.find("\n\n")), "[job]\nkind = \"train\"\noutput = \"r\"\noverwrite = false");
}

TEST(Document, canonical_entries_list_every_key_in_one_spelling) {
  const JobConfig strings = parse_job_config(kMinJob + "[load]\nchunk = \"1MiB\"\n", "a.toml");
  const JobConfig bytes = parse_job_config(kMinJob + "[load]\nchunk = \"1048576B\"\n", "b.toml");
  const std::vector<ConfigEntry> entries = canonical_entries(strings);
  EXPECT_EQ(entries, canonical_entries(bytes));
  std::size_t keys = 0;
  for (const Field& field : all_fields()) keys += field.columns.empty() ? 1 : field.columns.size();
  ASSERT_EQ(entries.size(), keys);
  EXPECT_EQ(entries[0].key, "job.kind");
  EXPECT_EQ(entries[0].value, "\"train\"");
}

TEST(Document, canonical_entries_change_with_every_key) {
  // No change of one key contradicts the others of this job.
  const std::vector<std::string> settings{"job.kind=export", "export.at_end=true", "export.path=trained",
                                          "model.adapter=another"};
  const JobConfig least = parse_job_config(kMinJob, "job.toml", settings);
  const JobConfig other = parse_job_config(kOther, "job.toml");
  std::set<std::string> same;
  for (const Field& field : all_fields())
    if (field.load(least) == field.load(other)) same.insert(field.name());
  EXPECT_EQ(same, (std::set<std::string>{"model.init", "model.frozen_format", "load.sink", "optimizer.kind",
                                         "optimizer.state", "optimizer.master", "optimizer.release_gradients",
                                         "optimizer.fit", "distil.teacher", "distil.loss"}))
      << "keys without a second value in kOther";
  for (const Field& field : all_fields()) {
    if (same.contains(field.name())) continue;
    std::vector<std::string> changed = settings;
    changed.push_back(field.name() + "=" + toml_text(field.load(other)));
    EXPECT_NE(canonical_entries(parse_job_config(kMinJob, "job.toml", changed)), canonical_entries(least))
        << changed.back();
  }
}

/// With single blanks for blanks and line ends.
std::string joined(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

TEST(Document, help_and_markdown_list_every_key) {
  const std::string help = describe_schema(100);
  const std::string markdown = schema_markdown();
  for (const Table& table : schema()) {
    EXPECT_THAT(help, HasSubstr("\n[" + table.name + "]  " + table.help));
    EXPECT_THAT(markdown, HasSubstr("### `[" + table.name + "]`"));
  }
  for (const Field& field : all_fields()) {
    EXPECT_THAT(help, HasSubstr("\n  " + field.key + " "));
    EXPECT_THAT(joined(help), HasSubstr(" " + joined(field.help)));
    EXPECT_THAT(joined(help), HasSubstr("; " + joined(field.expected)));
    EXPECT_THAT(markdown, HasSubstr("| `" + field.key + "` |"));
    for (const ListKey& column : field.columns) {
      EXPECT_THAT(help, HasSubstr("\n[[" + field.name() + "]]  "));
      EXPECT_THAT(joined(help), HasSubstr(" " + joined(column.help)));
      EXPECT_THAT(markdown, HasSubstr("### `[[" + field.name() + "]]`"));
      EXPECT_THAT(markdown, HasSubstr("| `" + column.key + "` |"));
    }
  }
}

TEST(Document, keys_that_a_resumed_training_must_keep_say_so) {
  const std::string markdown = schema_markdown();
  for (const Field& field : all_fields())
    EXPECT_EQ(markdown.find(field.help + "; a resumed training must keep it |") != std::string::npos,
              field.rules.is_fixed)
        << field.name();
}

TEST(Document, rules_are_found_by_every_name_of_a_key) {
  EXPECT_TRUE(rules_of("data.sequence_length").is_fixed);
  EXPECT_TRUE(rules_of("data.source.weight").is_fixed);
  EXPECT_FALSE(rules_of("data.source.tokens").is_fixed);
  EXPECT_TRUE(rules_of("generate.positions").changes_answers);
  EXPECT_FALSE(rules_of("generate.pass_tokens").changes_answers);
  EXPECT_FALSE(rules_of("data.unknown").is_fixed);
  EXPECT_EQ(find_key("data.unknown"), nullptr);
  EXPECT_EQ(find_key("guard.most_left_out")->key, "max_skipped_steps");
}

TEST(Document, a_list_of_tables_is_one_entry_for_each_of_its_keys) {
  const JobConfig config = parse_job_config(kOther, "job.toml");
  std::vector<ConfigEntry> entries;
  for (const ConfigEntry& entry : canonical_entries(config))
    if (entry.key.starts_with("data.source")) entries.push_back(entry);
  EXPECT_EQ(entries, (std::vector<ConfigEntry>{{"data.source.tokens", "[\"u.h5\", \"v w.h5\"]"},
                                               {"data.source.weight", "[2.5, 1.0]"}}));
}

TEST(Document, help_has_no_line_that_is_wider_than_asked_for_and_aligns_its_columns) {
  for (const std::size_t width : {60, 80, 100}) {
    const std::string help = describe_schema(width);
    const std::size_t column = help.find("default; values");
    std::istringstream lines(help);
    std::size_t longest = 0;
    for (std::string line; std::getline(lines, line);) {
      longest = std::max(longest, line.size());
      if (!line.starts_with("  ")) continue;
      EXPECT_EQ(line.substr(column - 2, 2), "  ") << line;
      EXPECT_NE(line[column], ' ') << line;
    }
    EXPECT_LE(longest, width);
    EXPECT_GT(longest, width - 10);
  }
}

}  // namespace
}  // namespace sluice
