#include "job/prepare/blueprint.hpp"

#include "base/at_place.hpp"
#include "base/version.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "device/devices.hpp"
#include "job/prepare/model_source.hpp"
#include "job/prepare/options_of_job.hpp"
#include "model/agreed_settings.hpp"
#include "model/model_directory.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {
namespace {

AgreementTopic program_topic() {
  return {"program",
          {{"version", std::string(version())},
           {"git revision", std::string(git_revision())},
           {"CUDA", cuda_version_text()},
           {"NCCL", nccl_version_text()}}};
}

AgreementTopic job_topic(const JobConfig& config) {
  AgreementTopic topic{"job key", {}};
  for (const ConfigEntry& entry : canonical_entries(config))
    topic.entries.push_back({entry.key, entry.value});
  return topic;
}

AgreementTopic setting_topic(const ModelConfig& model) {
  AgreementTopic topic{"model setting", {}};
  for (const Setting& setting : agreed_settings(model)) topic.entries.push_back({setting.key, setting.value});
  return topic;
}

AgreementTopic tensor_topic(const ParameterManifest& manifest) {
  AgreementTopic topic{"tensor", {}};
  for (const TensorInfo& tensor : manifest.tensors())
    topic.entries.push_back({tensor.name, ParameterManifest::canonical_value(tensor)});
  return topic;
}

/// Describes the model of the settings. Messages name the key, and the path from the root on, since a
/// relative path depends on where a job starts.
ModelDescription describe_model_of(const ModelSettings& settings) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(settings.path, error);
  return at_place("model.path", [&] {
    require_model_directory(settings.path);  // as it is written, which a name on the hub is told by
    return describe_model(error ? settings.path : absolute.lexically_normal(), settings.dtype);
  });
}

void require_writable_experts(const JobConfig& config, const ModelDescription& model) {
  if (config.export_.experts != ExportExperts::kPerExpert || !model.manifest.has_fused_experts()) return;
  fail({ExitCode::kBadConfig, "job.not_for_model"},
       "export.experts: found \"per_expert\", expected \"source\" or \"fused\": checkpoints of {} have all "
       "experts of a layer in one tensor, and no name for one of them",
       model.config.model_type);
}

void require_short_sequences(const JobConfig& config, const ModelConfig& model) {
  const SequenceLimit& limit = model.sequence_limit;
  const auto require = [&](const char* key, std::int64_t tokens) {
    if (tokens > limit.tokens)
      fail({ExitCode::kBadConfig, "job.not_for_model"},
           "{}: found {}, expected at most {} = {} for {}: {}, which this version does not compute", key,
           tokens, limit.key, limit.tokens, model.model_type, limit.reason);
  };
  if (limit.tokens == 0) return;
  const JobKind kind = config.job.kind;
  if (is_training(kind) || evaluates_tokens(kind))
    require("data.sequence_length", config.data.sequence_length);
  if (kind == JobKind::kGenerate || (is_training(kind) && config.generate.every_steps > 0))
    require("generate.max_sequence_length", config.generate.max_sequence_length);
}

/// Error(kBadConfig) if the job keeps more tokens of a distribution than the vocabulary has.
void require_fewer_tokens(const JobConfig& config, const ModelConfig& model) {
  if (config.job.kind != JobKind::kScore || config.score.distribution != ScoreDistribution::kTop) return;
  if (config.score.top > model.vocab_size)
    fail({ExitCode::kBadConfig, "job.not_for_model"},
         "score.top: found {}, expected at most {}, which is the number of tokens in the model's vocabulary",
         config.score.top, model.vocab_size);
}

/// Description of the model that the job computes with, with adapters or frozen parameters if it asks for
/// them.
ModelDescription described(const JobConfig& config, const std::optional<PeftAdapter>& adapter) {
  ModelDescription model = describe_model_of(config.model);
  require_writable_experts(config, model);
  require_short_sequences(config, model.config);
  require_fewer_tokens(config, model.config);
  model.adapters = adapter ? adapter->adapters : described_adapters(config, model.manifest);
  if (is_training(config.job.kind)) {
    require_no_dropout(model.adapters, model.manifest);
    if (config.job.kind == JobKind::kPrefer && model.adapters.dropout > 0)
      fail({ExitCode::kBadConfig, "job.adapter"},
           "lora.dropout: found {:g}{}, expected 0: job.kind = \"prefer\" compares log-probabilities, which "
           "dropout would change from pass to pass",
           model.adapters.dropout, config.lora.start.empty() ? "" : " in the adapter of lora.start");
    static_cast<void>(balancing_coefficient(config.train, model.config));
    require_routers(config.train, model.config);
    require_movable_biases(config, model.config);
  }
  if (model.adapters.empty())
    freeze_parameters(config, model.manifest);
  else
    add_adapters(model.manifest, model.adapters);
  return model;
}

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

/// Adapter of the job's adapter directory, from its headers; nothing if the job has none.
std::optional<PeftAdapter> adapter_of(const JobConfig& config) {
  if (!has_adapter_directory(config)) return std::nullopt;
  return read_adapter(config, describe_model_of(config.model).manifest);
}

}  // namespace

DescribedModel::DescribedModel(const JobConfig& config)
    : adapter(adapter_of(config)), model(described(config, adapter)), keys(model.manifest) {}

Blueprint::Blueprint(JobConfig job, StoredTensors published)
    : Blueprint(with_saved_sources(std::move(job)), nullptr, std::move(published)) {}

Blueprint::Blueprint(const Blueprint& other, const JobConfig& changed, StoredTensors published)
    : Blueprint(changed, changed.job.kind == other.config.job.kind ? other.description : nullptr,
                std::move(published)) {}

Blueprint::Blueprint(JobConfig job, std::shared_ptr<const DescribedModel> known, StoredTensors published)
    : config(std::move(job)),
      description(known ? std::move(known) : std::make_shared<const DescribedModel>(config)),
      stored(std::move(published)),
      layouts(make_unit_layouts(
          model.manifest, config.optimizer.state == StateFormat::kInt8 ? kStateBlock : 1, stored.tensors(),
          config.parallel.vocabulary == VocabularySharing::kSharded ? Vocabulary::kByRows
                                                                    : Vocabulary::kGathered)),
      stages(make_stage_plan(layouts, TiedHead{model.config.tie_word_embeddings})) {}

ShardPlan Blueprint::shard_plan(int ranks) const {
  // Until the plan has chosen a number of copies, there is one.
  const auto replicas = static_cast<int>(std::max<std::int64_t>(config.parallel.replicas, 1));
  if (ranks % replicas != 0)
    fail(
        {ExitCode::kBadConfig, "job.ranks"},
        "parallel.replicas: found {}, expected one of {}, the divisors of {}, the number of ranks: each copy of "
        "the model has as many ranks",
        replicas, fmt::join(divisors(ranks), ", "), ranks);
  const int world = ranks / replicas;
  const auto wanted = static_cast<int>(config.parallel.expert_parallel);
  if (config.memory.offload == Offload::kSource && wanted != 0 && wanted != world)
    fail({ExitCode::kBadConfig, "job.ranks"},
         "parallel.expert_parallel: found {} with memory.offload = \"source\", expected 0 or the number of "
         "ranks with each copy of the model, {}, because a rank reads whole experts that it has for itself",
         wanted, world);
  return {layouts,
          {world, wanted == 0 ? world : wanted, replicas, {config.parallel.reduce, config.parallel.dispatch}},
          config.memory.offload == Offload::kDisk ? ShardAlignment::kPages : ShardAlignment::kLines,
          config.parallel.frozen == FrozenWeights::kKept ? FrozenUnits::kKept : FrozenUnits::kGathered};
}

std::vector<std::int64_t> Blueprint::shard_bytes(const ShardPlan& plan) const {
  std::vector<std::int64_t> bytes;
  for (int rank = 0; rank < plan.world(); ++rank)
    bytes.push_back(plan.arena_elements(rank) * size_of(config.model.dtype));
  for (const std::vector<StoredBytes>& unit : stored_bytes(plan, stored))
    for (std::size_t rank = 0; rank < unit.size(); ++rank) bytes[rank] += unit[rank].all();
  return bytes;
}

std::vector<AgreementTopic> agreement_topics(const Blueprint& blueprint) {
  return {program_topic(), job_topic(blueprint.config), setting_topic(blueprint.model.config),
          tensor_topic(blueprint.model.manifest)};
}

}  // namespace sluice
