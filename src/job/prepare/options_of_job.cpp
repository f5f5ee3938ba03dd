#include "job/prepare/options_of_job.hpp"

#include "base/error.hpp"
#include "job/prepare/score_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

std::string key_of_source(std::size_t index) { return fmt::format("data.source[{}].tokens", index); }

namespace {

PackOptions packed_pairs(const DataSettings& data, bool is_alone) {
  return {data.pack_window, data.long_documents, PackUnit::kPair, is_alone};
}

}  // namespace

BatchOptions batch_options(const JobConfig& config, std::int64_t vocab_size) {
  const DataSettings& data = config.data;
  TokenFileOptions file{.sequence_length = data.sequence_length, .vocab_size = vocab_size};
  if (data.separator_token >= 0) file.separator_token = data.separator_token;
  const bool evaluates = evaluates_tokens(config.job.kind);
  file.keep_rest = evaluates;
  std::vector<TokenSource> sources;
  if (evaluates || data.source.empty())
    sources.push_back({data.tokens});
  else
    for (const SourceSettings& source : data.source)
      sources.push_back({source.tokens, source.weight, key_of_source(sources.size())});
  std::optional<PackOptions> pack;
  if (data.pack && !evaluates) pack = {data.pack_window, data.long_documents};
  if (config.job.kind == JobKind::kPrefer) pack = packed_pairs(data, /*is_alone=*/!data.pack);
  if (config.job.kind == JobKind::kScore) pack = {data.pack_window, data.long_documents, PackUnit::kDocument};
  return {.sources = std::move(sources),
          .file = file,
          .batch_sequences = config.train.batch_sequences,
          .pack = pack,
          .order = data.order,
          .seed = static_cast<std::uint64_t>(data.seed),
          .steps = evaluates ? std::numeric_limits<std::int64_t>::max() : config.train.steps,
          .teachers = config.job.kind == JobKind::kTrain ? config.distil.teacher
                                                         : std::vector<std::filesystem::path>{},
          .teacher_temperature = config.distil.temperature,
          .tokenizer_digest = [model = config.model.path] { return tokenizer_digest(model); },
          .keeps_places =
              config.job.kind == JobKind::kScore && config.score.distribution == ScoreDistribution::kSampled};
}

BatchOptions held_out_options(const JobConfig& config, const std::filesystem::path& tokens,
                              std::int64_t vocab_size) {
  JobConfig evaluation = config;
  evaluation.job.kind = JobKind::kEvaluate;
  evaluation.data.tokens = tokens;
  BatchOptions options = batch_options(evaluation, vocab_size);
  options.sources.front().key = "evaluate.tokens";
  if (config.job.kind == JobKind::kPrefer) options.pack = packed_pairs(config.data, /*is_alone=*/true);
  return options;
}

ReferenceOptions reference_options(const ModelDescription& model, std::vector<std::filesystem::path> files) {
  return {std::move(files), model.manifest.model_hash().hex(), model.config.vocab_size};
}

TrainerOptions trainer_options(const JobConfig& config, const ModelDescription& model) {
  TrainerOptions options{
      .sequence_length = config.data.sequence_length,
      .train = config.train,
      .optimizer = config.optimizer,
      .prefer = config.job.kind == JobKind::kPrefer ? std::optional(config.prefer) : std::nullopt,
      .distil = config.distil.learns() ? std::optional(config.distil) : std::nullopt,
      .adapter_dropout = model.adapters.dropout,
      .adapter_seed = static_cast<std::uint64_t>(config.lora.seed),
      .on_nonfinite = config.guard.on_nonfinite};
  options.train.aux_loss_coefficient = balancing_coefficient(config.train, model.config);
  return options;
}

LearningRateSchedule learning_rate_schedule(const JobConfig& config) {
  return {config.schedule, config.optimizer.learning_rate, config.train.steps};
}

double balancing_coefficient(const TrainSettings& train, const ModelConfig& model) {
  constexpr double kDefault = 0.001;
  const bool is_given = train.aux_loss_coefficient >= 0;
  if (model.router.has_balancing_loss()) return is_given ? train.aux_loss_coefficient : kDefault;
  if (is_given && train.aux_loss_coefficient != 0)
    fail(
        {ExitCode::kBadConfig, "job.not_for_model"},
        "train.aux_loss_coefficient: found {:g}, expected 0: {} has {}", train.aux_loss_coefficient,
        model.model_type,
        model.router.has_correction_bias
            ? "correction biases in place of a load-balancing loss; train.router_bias_update_rate moves them"
            : "no load-balancing loss; train.router_z_loss keeps its routers from growing sure of a few experts");
  return 0;
}

std::string balancing_advice(const TrainSettings& train, const ModelConfig& model) {
  if (model.router.has_correction_bias)
    return fmt::format("train.router_bias_update_rate = {:g}",
                       std::max(0.001, 2 * train.router_bias_update_rate));
  if (!model.router.has_balancing_loss())
    return fmt::format("train.router_z_loss = {:g}, or a longer schedule.warmup_steps",
                       std::max(0.001, 10 * train.router_z_loss));
  const double coefficient = balancing_coefficient(train, model);
  const double more = coefficient == 0 ? 0.001 : coefficient * 10;
  if (train.aux_loss_scope == BalancingScope::kModel)
    return fmt::format("train.aux_loss_scope = \"layer\" and train.aux_loss_coefficient = {:g}", more);
  return fmt::format("train.aux_loss_coefficient = {:g}, or a longer schedule.warmup_steps", more);
}

void require_routers(const TrainSettings& train, const ModelConfig& model) {
  if (train.router_z_loss == 0 || model.moe_layer_count() > 0) return;
  fail({ExitCode::kBadConfig, "job.not_for_model"},
       "train.router_z_loss: found {:g}, expected 0: this {} has no layer with experts, so no router",
       train.router_z_loss, model.model_type);
}

void require_movable_biases(const JobConfig& config, const ModelConfig& model) {
  const double rate = config.train.router_bias_update_rate;
  if (rate == 0) return;
  if (!model.router.has_correction_bias)
    fail({ExitCode::kBadConfig, "job.not_for_model"},
         "train.router_bias_update_rate: found {:g}, expected 0: the router of {} has no correction bias; {}",
         rate, model.model_type,
         model.router.has_balancing_loss()
             ? "train.aux_loss_coefficient balances its experts"
             : "train.router_z_loss keeps it from growing sure of a few experts");
  if (config.lora.trains())
    fail({ExitCode::kBadConfig, "job.not_for_model"},
         "train.router_bias_update_rate: found {:g}, expected 0, because an adapter holds no correction "
         "biases, and the model that it is put on has those it was published with",
         rate);
}

}  // namespace sluice
