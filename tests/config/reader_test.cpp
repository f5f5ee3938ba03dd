#include "config/job_config.hpp"

#include "config/key_hints.hpp"
#include "config/refusals.hpp"
#include "config/schema.hpp"
#include "support/source_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace sluice {
namespace {

using test::complaint;
using test::kMinJob;
using test::kNoTokens;
using test::names_alone;
using test::Refusal;
using test::refusal;
using test::refusal_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A file that is gone at the end of its scope.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / fmt::format("sluice-config-{}.toml", getpid())) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(JobConfig, has_defaults_for_all_but_paths) {
  const JobConfig config = parse_job_config(kMinJob, "job.toml");
  EXPECT_EQ(config.job.output, "r");
  EXPECT_EQ(config.model.dtype, DType::kBFloat16);
  EXPECT_EQ(config.parallel.expert_parallel, 0);
  EXPECT_EQ(config.load.chunk_bytes, 8 * kMiB);
  EXPECT_EQ(config.train.batch_sequences, 8);
  EXPECT_EQ(config.optimizer.betas, (std::array<double, 2>{0.9, 0.95}));
  EXPECT_EQ(config.export_.max_shard_bytes, 5'000'000'000);
}

TEST(JobConfig, takes_dotted_and_inline_tables) {
  const JobConfig config =
      parse_job_config("job.output = 'r'\nmodel = {path = 'm'}\ndata.tokens = 't'\n", "job.toml");
  EXPECT_EQ(config.model.path, "m");
}

TEST(JobConfig, reports_every_problem_at_once_in_file_order) {
  const Refusal result = refusal(R"([job]
kind = "evaluation"
outptu = "runs/x"
[model]
path = ""
dtype = "float16"
[optimiser]
eps = 1
[train]
steps = "10"
learning_rate = 3
batch_sequences = 0
recompute = ["layer"]
[parallel]
expert_parallel = -3
[load]
chunk = "8 parsecs"
verify = 'yes'
[[data]]
x = 1
)",
                                 {"optimizer.learning_rat=1"});
  EXPECT_EQ(result.code, ExitCode::kBadConfig);
  EXPECT_EQ(
      result.text,
      R"(job.toml:2:1: job.kind: found "evaluation", expected "train", "prefer", "load", "export", "evaluate", "generate" or "score"
job.toml:3:1: job.outptu: unknown key, did you mean "output"? [config.unknown_key]
job.toml:5:1: model.path: found "", expected a path [config.value]
job.toml:6:1: model.dtype: found "float16", expected "bfloat16" or "float32" [config.value]
job.toml:7:2: optimiser: unknown table, did you mean "optimizer"? [config.unknown_key]
job.toml:10:1: train.steps: found "10", expected an integer from 1 to 1000000000 [config.value]
job.toml:11:1: train.learning_rate: unknown key, did you mean optimizer.learning_rate? [config.unknown_key]
job.toml:12:1: train.batch_sequences: found 0, expected an integer from 1 to 1048576 [config.value]
job.toml:13:1: train.recompute: found ["layer"], expected "layer", "none" or "all" [config.value]
job.toml:15:1: parallel.expert_parallel: found -3, expected an integer from 0 to 65536 [config.value]
job.toml:17:1: load.chunk: found "8 parsecs", expected a size with its unit, such as "8MiB" (2^20 B) or "128.5GB" (10^9 B), from "64KiB" to "1GiB" [config.value]
job.toml:18:1: load.verify: found "yes", expected true or false [config.value]
job.toml:19:3: data: found an array of tables, expected a table [config.value]
--set optimizer.learning_rat=1: optimizer.learning_rat: unknown key, did you mean "learning_rate"? [config.unknown_key]
job.toml: job.output: found nothing, expected a path (run directory, created if missing; relative to the current working directory) [config.missing_key])");
}

TEST(JobConfig, answers_keys_of_other_trainers_with_its_own_in_a_table_or_outside_of_all) {
  const Refusal result = refusal(R"(gradient_accumulation_steps = 4
learning_rate = 1e-4
[job]
output = "out"
[training_args]
[train]
num_train_epochs = 3
)");
  EXPECT_THAT(result.text,
              HasSubstr("job.toml:1:1: gradient_accumulation_steps: unknown table, expected train.batch_"));
  EXPECT_THAT(result.text,
              AllOf(HasSubstr("learning_rate: unknown table"), HasSubstr("optimizer.learning_rate")));
  EXPECT_THAT(result.text, HasSubstr("training_args: unknown table, expected [train]"));
  EXPECT_THAT(result.text, HasSubstr("train.num_train_epochs: unknown key, expected train.steps"));
}

TEST(JobConfig, resumes_from_the_newest_step_from_none_or_from_one) {
  const auto resume = [](const std::string& value) {
    return parse_job_config(kMinJob, "job.toml", std::vector<std::string>{"checkpoint.resume=" + value})
        .checkpoint.resume;
  };
  EXPECT_EQ(resume("auto"), CheckpointSettings::kResumeNewest);
  EXPECT_EQ(resume("never"), CheckpointSettings::kResumeNever);
  EXPECT_EQ(resume("100"), 100);
  EXPECT_THAT(complaint("[checkpoint]\nresume = 'latest'\n"),
              AllOf(HasSubstr("checkpoint.resume: found \"latest\""),
                    HasSubstr("\"auto\", \"never\", \"best\""), HasSubstr("from 0")));
}

TEST(JobConfig, names_the_best_saved_step_in_place_of_a_number) {
  const auto job = [](const std::string& assignment) {
    return parse_job_config(kMinJob, "job.toml", std::vector<std::string>{assignment});
  };
  EXPECT_EQ(job("checkpoint.resume=best").checkpoint.resume, kBestStep);
  EXPECT_EQ(job("model.step=best").model.step, kBestStep);
  EXPECT_EQ(job("model.step=newest").model.step, kNewestStep);
  EXPECT_EQ(job("model.step=40").model.step, 40);
  EXPECT_THAT(complaint("", {"model.step=worst"}), HasSubstr("expected \"newest\", \"best\", or an integer"));
}

TEST(JobConfig, exports_at_the_end_never_the_last_or_the_best_step) {
  const std::vector<std::string> evaluates{"export.path=out", "evaluate.tokens=e.h5",
                                           "evaluate.every_steps=2"};
  const auto at_end = [&](const std::string& value) {
    std::vector<std::string> overrides = evaluates;
    overrides.push_back("export.at_end=" + value);
    if (value == "false") overrides.front() = "export.path=\"\"";
    const JobConfig config = parse_job_config(kMinJob, "job.toml", overrides);
    EXPECT_EQ(to_toml(parse_job_config(to_toml(config), "again.toml")), to_toml(config));
    return config.export_.at_end;
  };
  EXPECT_EQ(at_end("false"), ExportAtEnd::kNo);
  EXPECT_EQ(at_end("true"), ExportAtEnd::kLast);
  EXPECT_EQ(at_end("best"), ExportAtEnd::kBest);
  EXPECT_THAT(complaint("", {"export.path=out", "export.at_end=worst"}),
              AllOf(HasSubstr("export.at_end: found \"worst\""), HasSubstr("true, false or \"best\"")));
}

TEST(JobConfig, lists_known_names_where_none_is_near) {
  EXPECT_EQ(complaint("[metrics]\nqqqqqqqq = 1\n"),
            "job.toml:8:1: metrics.qqqqqqqq: unknown key, expected \"file\" or \"log_every\"");
  EXPECT_THAT(complaint("[qqqqqqqq]\nx = 1\n"),
              HasSubstr("qqqqqqqq: unknown table, expected \"job\", \"model\", "));
}

TEST(JobConfig, refuses_keys_outside_of_tables) {
  EXPECT_THAT(refusal("train = 5\n" + kMinJob).text,
              names_alone("job.toml:1:1: train", {"found 5", "table"}));
  EXPECT_THAT(refusal("optimzer = 1\n" + kMinJob).text,
              names_alone("job.toml:1:1: optimzer", {"did you mean", "optimizer"}));
}

TEST(JobConfig, takes_a_list_of_tables_in_each_of_tomls_spellings) {
  const std::string header =
      kNoTokens + "[[data.source]]\ntokens = 'a'\nweight = 2\n[[data.source]]\ntokens = 'b'\n";
  const std::string inline_list =
      kNoTokens + "[data]\nsource = [{tokens = 'a', weight = 2.0}, {tokens = 'b'}]\n";
  const JobConfig config = parse_job_config(header, "job.toml");
  ASSERT_EQ(config.data.source.size(), 2U);
  EXPECT_EQ(config.data.source[0].tokens, "a");
  EXPECT_EQ(config.data.source[0].weight, 2.0);
  EXPECT_EQ(config.data.source[1].tokens, "b");
  EXPECT_EQ(config.data.source[1].weight, 1.0);
  EXPECT_EQ(to_toml(parse_job_config(inline_list, "job.toml")), to_toml(config));
  const JobConfig set =
      parse_job_config(kNoTokens, "job.toml",
                       std::vector<std::string>{"data.source=[{tokens = 'a', weight = 2}, {tokens = 'b'}]"});
  EXPECT_EQ(to_toml(set), to_toml(config));
  const JobConfig none =
      parse_job_config(header, "job.toml", std::vector<std::string>{"data.source=[]", "data.tokens=t"});
  EXPECT_TRUE(none.data.source.empty());
}

TEST(JobConfig, names_the_place_of_every_problem_in_a_list_of_tables) {
  const std::string text = refusal(kNoTokens + R"([[data.source]]
tokens = "a"
wieght = 2
[[data.source]]
weight = 0
[[data.source]]
tokens = "${"
weight = "much"
)")
                               .text;
  EXPECT_THAT(
      lines_of(text),
      ElementsAre(
          names_alone("job.toml:7:1: data.source[0].wieght", {"unknown key", "\"weight\""}),
          names_alone("job.toml:9:1: data.source[1].weight", {"found 0", "from 1e-06 to 1e+06"}),
          names_alone("job.toml:8:1: data.source[1].tokens", {"found nothing", "path"}),
          names_alone("job.toml:11:1: data.source[2].tokens", {"found \"${\"", "no }"}),
          names_alone("job.toml:12:1: data.source[2].weight", {"found \"much\"", "from 1e-06 to 1e+06"})));
  EXPECT_THAT(refusal(kNoTokens, {"data.source=[{tokens='a', weight=-1}]"}).text,
              names_alone("--set data.source=[{tokens='a', weight=-1}]: data.source[0].weight",
                          {"found -1", "from 1e-06 to 1e+06"}));
  EXPECT_THAT(refusal(kNoTokens, {"data.source=a.h5"}).text,
              names_alone("--set data.source=a.h5: data.source",
                          {"found \"a.h5\"", "list of tables", "tokens, weight"}));
  EXPECT_THAT(refusal(kNoTokens, {"train.steps=[{a = 1}]", "data.tokens=t"}).text,
              AllOf(HasSubstr("train.steps: found an array of tables"), HasSubstr("integer")));
}

TEST(Overrides, apply_in_order_over_the_file) {
  const std::vector<std::string> overrides{"model.path=/x/y", "train.steps=5", "train.steps=6",
                                           "optimizer.eps=1", "load.chunk=1MiB"};
  const JobConfig config = parse_job_config(kMinJob, "job.toml", overrides);
  EXPECT_EQ(config.model.path, "/x/y");
  EXPECT_EQ(config.train.steps, 6);
  EXPECT_EQ(config.optimizer.eps, 1.0);
  EXPECT_EQ(config.load.chunk_bytes, kMiB);
}

TEST(Overrides, are_named_in_their_problems) {
  EXPECT_THAT(complaint("", {"train.steps=many"}),
              names_alone("--set train.steps=many: train.steps", {"found \"many\"", "from 1 to 1000000000"}));
  EXPECT_THAT(complaint("", {"job.output="}),
              names_alone("--set job.output=: job.output", {"found nothing", "path"}));
  EXPECT_THAT(complaint("", {"optimiser.eps=1"}),
              names_alone("--set optimiser.eps=1: optimiser", {"unknown table", "\"optimizer\""}));
  EXPECT_THAT(complaint("", {"job.output={a=1}"}),
              names_alone("--set job.output={a=1}: job.output", {"found a table", "path"}));
  EXPECT_THAT(complaint("", {"job.output.x=1"}),
              StartsWith("--set job.output.x=1: job.output.x: unknown key"));
  EXPECT_THAT(complaint("", {"job.output=a\nb"}),
              StartsWith("--set job.output=a\\x0ab: job.output: found \"a\\u000ab\""));
}

TEST(Overrides, of_another_form_are_a_usage_error) {
  EXPECT_EQ(refusal(kMinJob, {"steps=5"}).code, ExitCode::kUsage);
  EXPECT_EQ(refusal("no toml", {"steps=5"}).text, "--set steps=5: expected table.key=value");
}

TEST(JobFile, means_what_its_text_does) {
  const TemporaryFile file(kMinJob);
  EXPECT_EQ(to_toml(load_job_config(file.path())), to_toml(parse_job_config(kMinJob, "another.toml")));
}

TEST(JobFile, that_cannot_be_one_is_refused_by_name) {
  const TemporaryFile large(std::string(kMiB + 1, '#'));
  for (const std::filesystem::path& path : std::vector<std::filesystem::path>{
           "/no/such/job.toml", "/", "/dev/zero", "", std::string(5000, 'x'), large.path()}) {
    const Refusal result = refusal_of([&] { return load_job_config(path); });
    EXPECT_EQ(result.code, ExitCode::kBadConfig) << path;
    EXPECT_THAT(result.text, StartsWith(path.string().substr(0, 100)));
  }
}

TEST(JobFile, of_the_largest_size_is_read) {
  const TemporaryFile file(kMinJob + std::string(static_cast<std::size_t>(kMiB) - kMinJob.size(), '\n'));
  EXPECT_EQ(load_job_config(file.path()).model.path, "m");
}

TEST(ShippedJobFiles, are_all_valid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "configs")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_EQ(refusal_of([&] { return load_job_config(entry.path()); }).text, "");
    ++files;
  }
  EXPECT_GE(files, 2);
}

TEST(KeyHint, another_form_of_a_tables_own_key_counts_before_a_key_of_another_table) {
  const auto hint = [](const char* table, const char* key) { return key_hint(*find_table(table), key); };
  EXPECT_THAT(hint("train", "step"), AllOf(HasSubstr("\"steps\""), Not(HasSubstr("model.step"))));
  EXPECT_THAT(hint("generate", "top-k"), HasSubstr("\"top_k\""));
  EXPECT_THAT(hint("generate", "step"), HasSubstr("model.step"));
  EXPECT_THAT(hint("train", "learning_rate"), HasSubstr("optimizer.learning_rate"));
}

}  // namespace
}  // namespace sluice
