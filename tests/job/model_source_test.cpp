#include "job/prepare/model_source.hpp"

#include "checkpoint/step_directory.hpp"
#include "model/architecture.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Directories with a model, with a PEFT adapter, and with saved steps of models and of adapters of the
/// model; no weights.
class ModelSource : public testing::Test {
 protected:
  ModelSource() {
    for (const char* name : {"start/model", "peft"}) fs::create_directories(directory_ / name);
    std::ofstream(directory_ / "start/model/config.json") << "{}";
    std::ofstream(directory_ / "peft/adapter_config.json") << "{}";
    for (const std::int64_t step : {10, 20}) {
      save("full", {.step = step, .job = {{"model.path", "\"model\""}}, .started_in = directory_ / "start"});
      save("lora", {.step = step,
                    .job = {{"model.path", "\"model\""}, {"lora.rank", "4"}},
                    .started_in = directory_ / "start",
                    .best = {10, 4}});
    }
  }

  void save(const std::string& run, const SavedStep& step) {
    const fs::path path = at(run, step.step);
    fs::create_directories(path);
    std::ofstream(path / kManifestFile) << to_manifest(step);
    std::ofstream(path / "config.json") << "{}";
  }

  [[nodiscard]] fs::path at(const std::string& run, std::int64_t step) const {
    return directory_ / run / "checkpoints" / step_name(step);
  }

  static JobConfig job(JobKind kind, const fs::path& model, const fs::path& adapter = "",
                       std::int64_t step = kNewestStep) {
    JobConfig config;
    config.job.kind = kind;
    config.model.path = model;
    config.model.step = step;
    (kind == JobKind::kTrain ? config.lora.start : config.model.adapter) = adapter;
    return with_saved_sources(config);
  }

  test::TemporaryDirectory directory_;
};

TEST_F(ModelSource, leaves_models_and_adapters_of_others_as_they_are) {
  const fs::path model = directory_ / "start/model", peft = directory_ / "peft";
  EXPECT_EQ(job(JobKind::kGenerate, model, peft).model.path, model);
  EXPECT_EQ(job(JobKind::kGenerate, model, peft).model.adapter, peft);
  EXPECT_EQ(job(JobKind::kTrain, directory_ / "none").model.path, directory_ / "none");
}

TEST_F(ModelSource, takes_a_step_of_a_run_as_the_model) {
  EXPECT_EQ(job(JobKind::kTrain, directory_ / "full").model.path, at("full", 20));
  const JobConfig named = job(JobKind::kEvaluate, directory_ / "full", "", 10);
  EXPECT_EQ(named.model.path, at("full", 10));
  EXPECT_EQ(with_saved_sources(named).model.path, at("full", 10)) << "once more";
  test::expect_error(ExitCode::kBadConfig, {"model.path", "no checkpoint of step 15", "10, 20"},
                     [&] { job(JobKind::kEvaluate, directory_ / "full", "", 15); });
}

TEST_F(ModelSource, takes_a_run_of_adapters_for_its_model_with_its_adapter) {
  for (const fs::path& path : {directory_ / "lora", at("lora", 20)}) {
    const JobConfig config = job(JobKind::kGenerate, path);
    EXPECT_EQ(config.model.path, directory_ / "start/model");
    EXPECT_EQ(config.model.adapter, at("lora", 20));
  }
  EXPECT_EQ(job(JobKind::kGenerate, directory_ / "lora", "", kBestStep).model.adapter, at("lora", 10));
}

TEST_F(ModelSource, takes_a_run_as_an_adapter) {
  const fs::path model = directory_ / "start/model";
  EXPECT_EQ(job(JobKind::kGenerate, model, directory_ / "lora").model.adapter, at("lora", 20));
  EXPECT_EQ(job(JobKind::kTrain, model, directory_ / "lora", kBestStep).lora.start, at("lora", 10));
  EXPECT_EQ(job(JobKind::kTrain, model, at("lora", 10)).lora.start, at("lora", 10));
  test::expect_error(ExitCode::kBadData, {"lora.start", "no adapter"},
                     [&] { job(JobKind::kTrain, model, directory_ / "full"); });
}

TEST_F(ModelSource, refuses_adapters_that_have_no_model_and_models_with_two_adapters) {
  test::expect_error(ExitCode::kBadConfig, {"model.path", "lora.start"},
                     [&] { job(JobKind::kTrain, directory_ / "lora"); });
  test::expect_error(ExitCode::kBadConfig, {"model.adapter"},
                     [&] { job(JobKind::kGenerate, directory_ / "lora", directory_ / "peft"); });
  fs::remove(directory_ / "start/model/config.json");
  test::expect_error(ExitCode::kBadData,
                     {"model.path", (directory_ / "start/model").string(), "model.adapter"},
                     [&] { job(JobKind::kGenerate, directory_ / "lora"); });
}

TEST(AdaptersOf, an_early_step_are_those_that_its_job_asks_for) {
  const ParameterManifest manifest =
      describe_model(fixture_folder() / "qwen3-moe-tiny", DType::kFloat32).manifest;
  const SavedStep early{.step = 8,
                        .job = {{"lora.rank", "4"},
                                {"lora.alpha", "8.0"},
                                {"lora.targets", "[\"q_proj\"]"},
                                {"lora.rslora", "true"},
                                {"lora.start", "\"\""}}};
  const SavedAdapters found = adapters_of(early, manifest);
  ASSERT_FALSE(found.description.empty());
  EXPECT_EQ(found.description.tensors.front(),
            (AdaptedTensor{"model.layers.0.self_attn.q_proj.weight", 4, 4.0}));
  EXPECT_TRUE(found.style.rslora);
  SavedStep own = early;
  own.adapters.description.tensors = {{"model.layers.1.self_attn.k_proj.weight", 2, 1.0}};
  EXPECT_EQ(adapters_of(own, manifest).description.tensors, own.adapters.description.tensors);
}

}  // namespace
}  // namespace sluice
