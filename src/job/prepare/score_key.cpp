#include "job/prepare/score_key.hpp"

#include "base/digest.hpp"
#include "base/error.hpp"
#include "config/schema.hpp"
#include "text/tokenizer.hpp"
#include "weights/sampled_digest.hpp"

#include <fmt/format.h>

#include <string>

namespace sluice {
namespace {

/// Digest of the model's files and of the numbers that it computes with.
std::string model_digest(const ModelSettings& model) {
  const std::string init =
      model.init == ModelInit::kCheckpoint ? "checkpoint" : fmt::format("random {}", model.init_seed);
  return digest_of(fmt::format("{} {} {} {}", sampled_digest(model.path), init, name_of(model.dtype),
                               name_of(model.frozen_format)))
      .hex();
}

}  // namespace

std::string tokenizer_digest(const std::filesystem::path& model) {
  if (!text::Tokenizer::find(model)) return "";
  try {
    return text::Tokenizer::load(model).digest().hex();
  } catch (const Error&) {
    return "";  // of a form that is not supported; ids are all that is needed here
  }
}

ScoreKey score_key(const JobConfig& config, const ModelDescription& model, const TokenFile& file,
                   const std::function<void()>& tell) {
  ScoreKey key;
  key.tokens_digest = file.digest().hex();
  tell();
  key.model_digest = model_digest(config.model);
  tell();
  key.adapter_digest =
      sampled_digest(is_training(config.job.kind) ? config.lora.start : config.model.adapter);
  key.tokenizer_digest = tokenizer_digest(config.model.path);
  if (key.tokenizer_digest.empty()) key.tokenizer_digest = file.tokenizer_digest();
  tell();
  key.structure_hash = model.manifest.model_hash().hex();
  if (config.data.long_documents == LongDocuments::kCut) key.long_documents = "cut";
  if (config.data.long_documents == LongDocuments::kLeaveOut) key.long_documents = "leave_out";
  key.vocab_size = model.config.vocab_size;
  key.sequence_length = config.data.sequence_length;
  key.batch_sequences = config.train.batch_sequences;
  key.pack_window = config.data.pack_window;
  key.documents = file.packable_documents().documents();
  key.tokens = file.token_count();
  if (config.job.kind != JobKind::kScore) return key;
  key.has_tokens = config.score.tokens;
  key.distribution_tokens = config.score.distribution_tokens();
  if (key.distribution_tokens == 0) return key;
  key.distribution = name_of(config.score.distribution);
  key.temperature = config.score.temperature;
  if (config.score.distribution == ScoreDistribution::kSampled) key.distribution_seed = config.score.seed;
  return key;
}

}  // namespace sluice
