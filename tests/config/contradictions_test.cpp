#include "config/contradictions.hpp"

#include "config/refusals.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {
namespace {

using test::complaint;
using test::kMinJob;
using test::kNoTokens;
using test::names_alone;
using test::refusal;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(JobConfig, refuses_the_best_step_and_patience_without_what_they_need) {
  EXPECT_THAT(complaint("[evaluate]\npatience = 3\n"), HasSubstr("evaluate.patience: found 3, expected 0"));
  const std::string best = "[export]\npath = 'out'\nat_end = 'best'\n";
  EXPECT_THAT(complaint(best), HasSubstr("expected evaluate.every_steps above 0"));
  EXPECT_THAT(
      complaint(best, {"evaluate.tokens=e.h5", "evaluate.every_steps=2", "checkpoint.every_minutes=0"}),
      HasSubstr("expected checkpoint.every_steps or checkpoint.every_minutes above 0"));
}

TEST(JobConfig, takes_copies_of_the_model_that_are_verified_whoever_reads) {
  for (const char* readers : {"load.readers=rank0", "load.readers=node", "load.readers=all"})
    EXPECT_EQ(complaint("[parallel]\nreplicas = 2\n", {"load.verify=true", readers}), "");
  EXPECT_EQ(complaint("[parallel]\nreplicas = 0\n"), "") << "as many as the plan finds";
}

TEST(JobConfig, refuses_preferences_that_have_no_reference) {
  const std::vector<std::string> prefer{"job.kind=prefer"};
  const std::string base = "[prefer]\nreference = 'base'\n";
  EXPECT_THAT(complaint(base, prefer),
              AllOf(HasSubstr("prefer.reference: found"), HasSubstr("lora.rank above 0")));
  EXPECT_EQ(complaint("[prefer]\nloss = 'orpo'\n", prefer), "") << "it needs none";
  for (const char* const reference : {"base", "start", "scores.h5"})
    EXPECT_THAT(complaint(fmt::format("[prefer]\nloss = 'orpo'\nreference = '{}'\n", reference), prefer),
                HasSubstr("prefer.reference: found a reference"));
  const std::string adapter = "[lora]\nrank = 2\ntargets = 'q_proj'\n",
                    started = "[lora]\nstart = 'adapter'\n";
  EXPECT_EQ(complaint(adapter, prefer), "");
  EXPECT_EQ(complaint(started + base, prefer), "");
}

TEST(JobConfig, chooses_the_reference_that_a_job_can_compare_with) {
  const auto chosen = [](std::vector<std::string> keys) {
    keys.insert(keys.end(), {"job.kind=prefer"});
    return parse_job_config(kMinJob, "job.toml", keys).prefer.reference.kind;
  };
  EXPECT_EQ(chosen({"lora.rank=2"}), PreferenceReference::kBase);
  EXPECT_EQ(chosen({"lora.start=adapter"}), PreferenceReference::kStart);
  EXPECT_EQ(chosen({}), PreferenceReference::kStart);
  EXPECT_EQ(chosen({"prefer.loss=orpo"}), PreferenceReference::kAuto) << "it has none";
  EXPECT_EQ(chosen({"lora.rank=2", "prefer.reference=start"}), PreferenceReference::kStart);
  EXPECT_EQ(chosen({"prefer.reference=['a.h5', 'b.h5']"}), PreferenceReference::kScores);
}

TEST(JobConfig, learns_from_a_teacher_in_a_training_alone) {
  const std::string distil = "[distil]\nteacher = 'scores.h5'\n";
  EXPECT_EQ(complaint(distil), "");
  for (const char* kind : {"job.kind=prefer", "job.kind=evaluate", "job.kind=score"})
    EXPECT_THAT(complaint(distil, {kind, "prefer.loss=orpo"}), HasSubstr("distil.teacher")) << kind;
}

TEST(JobConfig, refuses_preferences_with_settings_of_others) {
  const std::vector<std::string> prefer{"job.kind=prefer", "lora.rank=2", "lora.targets=q_proj"};
  EXPECT_THAT(complaint("[prefer]\nloss = 'ipo'\nlabel_smoothing = 0.1\n", prefer),
              HasSubstr("prefer.label_smoothing: found 0.1, expected 0"));
  EXPECT_EQ(complaint("[prefer]\nloss = 'sigmoid_norm'\nlabel_smoothing = 0.1\n", prefer), "");
  std::vector<std::string> one_answer = prefer;
  one_answer.emplace_back("data.answer=rejected");
  EXPECT_THAT(complaint("", one_answer), HasSubstr("data.answer: found one answer of two"));
}

TEST(JobConfig, a_state_to_be_chosen_is_one_that_the_kind_has) {
  const JobConfig job = parse_job_config(
      kMinJob, "job.toml", std::vector<std::string>{"optimizer.kind=adafactor", "optimizer.fit=auto"});
  EXPECT_EQ(job.optimizer.state, StateFormat::kFactored);
}

TEST(JobConfig, the_first_name_of_released_gradients_stays_readable) {
  const JobConfig config =
      parse_job_config(kMinJob, "job.toml", std::vector<std::string>{"optimizer.release_gradients=true"});
  EXPECT_EQ(config.optimizer.gradients, GradientMode::kRelease);
  EXPECT_FALSE(config.optimizer.release_gradients);
  EXPECT_THAT(
      complaint("[optimizer]\nrelease_gradients = true\ngradients = 'bfloat16'\n"),
      HasSubstr("optimizer.release_gradients: found true, expected optimizer.gradients = \"release\""));
}

TEST(JobConfig, refuses_optimizer_state_that_does_not_go_together) {
  EXPECT_THAT(complaint("[optimizer]\nkind = 'adafactor'\n"),
              HasSubstr("optimizer.state: found moments, expected \"factored\""));
  EXPECT_THAT(
      complaint("[optimizer]\nkind = 'lion'\nstate = 'factored'\n"),
      HasSubstr("optimizer.state: found \"factored\", expected \"float32\", \"bfloat16\" or \"int8\""));
  EXPECT_THAT(complaint("[optimizer]\nmaster = 'none'\n", {"model.dtype=float32"}),
              HasSubstr("optimizer.master: found fewer bits, expected \"float32\""));
  EXPECT_EQ(
      complaint(
          "[optimizer]\nkind = 'adafactor'\nstate = 'factored'\nmaster = 'none'\ngradients = 'release'\n"),
      "");
}

TEST(JobConfig, finds_contradictions) {
  EXPECT_THAT(
      complaint("[train]\nsteps = 5\n[schedule]\nwarmup_steps = 6\n"),
      names_alone("job.toml:10:1: schedule.warmup_steps", {"found 6", "at most train.steps, which is 5"}));
  EXPECT_THAT(complaint("", {"model.path=./r"}),
              names_alone("job.toml:2:1: job.output", {"directory of model.path"}));
  EXPECT_THAT(complaint("[debug]\ndump = './metrics.h5'\n"),
              names_alone("job.toml:8:1: debug.dump", {"file of metrics.file"}));
  EXPECT_THAT(complaint("[load]\nmemory_limit = '1MiB'\n"), HasSubstr("expected 0 or at least load.chunk"));
  EXPECT_THAT(complaint("", {"job.kind=load", "model.init=random"}),
              StartsWith("--set model.init=random: model.init: found \"random\", expected \"checkpoint\""));
}

TEST(JobConfig, an_export_needs_a_directory_of_its_own) {
  EXPECT_THAT(complaint("[export]\nat_end = true\n"),
              AllOf(HasSubstr("export.path: found nothing"), HasSubstr("export.at_end is true")));
  EXPECT_THAT(complaint("", {"job.kind=export"}), HasSubstr("because job.kind is \"export\""));
  EXPECT_THAT(complaint("", {"job.kind=export", "export.path=./m/."}),
              AllOf(HasSubstr("export.path: "), HasSubstr("directory of model.path")));
  EXPECT_THAT(complaint("", {"job.kind=export", "export.path=r"}),
              AllOf(HasSubstr("export.path: "), HasSubstr("directory of job.output")));
  EXPECT_EQ(complaint("[export]\npath = 'out'\nat_end = true\n"), "");
}

TEST(JobConfig, knows_one_place_by_each_of_its_spellings) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(complaint("", {"model.path=m", "job.output=" + here + "/m"}),
              HasSubstr("found the directory of model.path"));
  EXPECT_THAT(complaint("", {"model.path=m/", "job.output=./x/../m"}),
              HasSubstr("found the directory of model.path"));
  EXPECT_EQ(complaint("", {"model.path=m", "job.output=" + here + "/n"}), "");
}

TEST(JobConfig, a_directory_to_export_to_is_not_ignored_by_training) {
  EXPECT_THAT(complaint("[export]\npath = 'out'\n"),
              names_alone("job.toml:8:1: export.path", {"found a directory", "export.at_end = true"}));
  for (const char* kind : {"job.kind=load", "job.kind=evaluate", "job.kind=export"})
    EXPECT_EQ(complaint("[export]\npath = 'out'\n", {kind}), "");
}

TEST(JobConfig, a_step_has_no_more_tokens_than_can_be_planned_for) {
  EXPECT_THAT(complaint("[train]\nbatch_sequences = 1048576\n", {"data.sequence_length=1048576"}),
              names_alone("job.toml:8:1: train.batch_sequences",
                          {"found 1048576", "data.sequence_length = 1048576", "at most 1073741824"}));
  EXPECT_THAT(complaint("", {"data.sequence_length=1048576", "train.batch_sequences=1025"}),
              StartsWith("--set train.batch_sequences=1025: train.batch_sequences: found 1025 sequences"));
  EXPECT_EQ(complaint("", {"data.sequence_length=1048576", "train.batch_sequences=1024"}), "");
}

TEST(JobConfig, results_do_not_go_where_the_run_directory_keeps_its_own) {
  EXPECT_THAT(
      complaint("[metrics]\nfile = './status.json'\n"),
      names_alone("job.toml:8:1: metrics.file", {"found \"./status.json\"", "its own \"status.json\""}));
  const std::string here = std::filesystem::current_path().string();
  for (const std::string& file : {std::string("lock"), std::string("x/../job.toml"), std::string("logs"),
                                  std::string("logs/rank-00000.log"), std::string("checkpoints/a.h5"),
                                  std::string("../r/lock"), here + "/r/lock"}) {
    EXPECT_THAT(complaint("", {"metrics.file=" + file}), HasSubstr("run directory keeps its own")) << file;
    EXPECT_THAT(complaint("", {"debug.dump=" + file}), HasSubstr("run directory keeps its own")) << file;
  }
  EXPECT_THAT(complaint("", {"metrics.file=x/.."}), HasSubstr("metrics.file: found the run directory"));
  for (const char* file : {"lock.h5", "numbers/lock", "numbers/../m.h5", "/elsewhere/lock"})
    EXPECT_EQ(complaint("", {std::string("metrics.file=") + file}), "") << file;
}

TEST(JobConfig, results_leave_the_run_directory_by_absolute_paths_alone) {
  EXPECT_THAT(complaint("[debug]\ndump = '../dump.h5'\n"),
              names_alone("job.toml:8:1: debug.dump", {"out of the run directory", "absolute path"}));
  EXPECT_EQ(complaint("", {"debug.dump=/elsewhere/dump.h5", "metrics.file=/elsewhere/metrics.h5"}), "");
}

TEST(JobConfig, results_replace_nothing_that_the_job_reads) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(complaint("", {"metrics.file=" + here + "/t"}),
              AllOf(HasSubstr("metrics.file: "), HasSubstr("file of data.tokens")));
  EXPECT_THAT(complaint("", {"job.output=.", "debug.dump=t"}),
              AllOf(HasSubstr("debug.dump: "), HasSubstr("file of data.tokens")));
  EXPECT_THAT(complaint("", {"metrics.file=" + here + "/m/config.json"}),
              AllOf(HasSubstr("metrics.file: "), HasSubstr("directory of model.path")));
  EXPECT_EQ(complaint("", {"job.output=m/run"}), "");
}

TEST(JobConfig, results_have_files_of_their_own) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(complaint("", {"debug.dump=" + here + "/r/metrics.h5"}),
              AllOf(HasSubstr("debug.dump: "), HasSubstr("file of metrics.file")));
  EXPECT_THAT(complaint("", {"debug.dump=metrics.h5/dump.h5"}), HasSubstr("a path through metrics.file"));
  EXPECT_THAT(complaint("", {"debug.dump=a", "metrics.file=a/m.h5"}), HasSubstr("or to its folder"));
}

TEST(JobConfig, drawn_weights_have_no_settings_for_loading) {
  EXPECT_THAT(
      complaint("[load]\nverify = true\n", {"model.init=random"}),
      names_alone("job.toml:8:1: load.verify", {"found true", "expected false", "model.init = \"random\""}));
  EXPECT_THAT(complaint("[load]\nmemory_limit = '64MiB'\n", {"model.init=random"}),
              names_alone("job.toml:8:1: load.memory_limit",
                          {"found 67108864 bytes", "expected 0", "model.init = \"random\""}));
  EXPECT_EQ(complaint("[load]\nverify = true\nmemory_limit = '64MiB'\n"), "");
}

TEST(JobConfig, finds_no_contradiction_with_a_value_that_is_wrong_itself) {
  EXPECT_THAT(complaint("[train]\nsteps = 0\n[schedule]\nwarmup_steps = 600\n"),
              names_alone("job.toml:8:1: train.steps", {"found 0", "from 1 to 1000000000"}));
}

TEST(JobConfig, needs_tokens_only_to_train) {
  EXPECT_THAT(refusal(kNoTokens).text, StartsWith("job.toml: data.tokens: found nothing, expected"));
  EXPECT_EQ(refusal(kNoTokens, {"job.kind=load"}).code, ExitCode::kDone);
}

TEST(JobConfig, trains_on_one_file_or_on_sources) {
  const std::string sources = "[[data.source]]\ntokens = 'a'\n";
  EXPECT_EQ(refusal(kNoTokens + sources).text, "");
  EXPECT_THAT(complaint("[[data.source]]\ntokens = 'a'\n"),
              AllOf(StartsWith("job.toml:7:8: data.source: "), HasSubstr("data.tokens")));
  EXPECT_EQ(complaint("[[data.source]]\ntokens = 'a'\n", {"job.kind=evaluate"}), "") << "of data.tokens";
  EXPECT_THAT(refusal(kNoTokens + sources, {"job.kind=evaluate"}).text,
              AllOf(HasSubstr("data.tokens: found nothing"), HasSubstr("dataset tokens"),
                    HasSubstr("job.kind is \"evaluate\""), HasSubstr("data.source")));
  EXPECT_THAT(refusal(kNoTokens + sources, {"job.output=.", "metrics.file=a"}).text,
              AllOf(HasSubstr("metrics.file: "), HasSubstr("file of data.source")));
}

TEST(JobConfig, allows_micro_batches_above_the_batch) {
  EXPECT_EQ(complaint("[train]\nbatch_sequences = 2\nmicro_batch_sequences = 8\n"), "");
}

}  // namespace
}  // namespace sluice
