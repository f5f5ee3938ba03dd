// Samples: answers of a model that is being trained to a few prompts, every so many steps.
#pragma once

#include "generate/generator.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/answers/model_text.hpp"
#include "job/job.hpp"
#include "metrics/schema.hpp"
#include "train/trainer.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace sluice {

class TrainSamples {
 public:
  /// Collective over the context's communicator. Rank 0 reads generate.prompts, if generate.every_steps is
  /// not 0; without, this takes no memory. Of an earlier run's samples those of steps behind `steps_done` are
  /// taken away.
  TrainSamples(JobContext& context, Trainer& trainer, std::int64_t steps_done);

  /// How many there are in so many steps.
  [[nodiscard]] std::int64_t most(std::int64_t steps) const {
    return forward_ == nullptr ? 0 : steps / context_.config().generate.every_steps * std::ssize(requests_);
  }
  /// Collective over the context's communicator, between steps: answers the prompts if it is time. A line is
  /// printed for each, and written to generate.output. Nothing that training reads is changed. Returns them,
  /// on rank 0.
  std::vector<SampleRow> after_step(std::int64_t step);

 private:
  void keep_samples_until(std::int64_t step) const;
  void take(std::int64_t step, const Generation& answer, nlohmann::json sample) const;

  JobContext& context_;
  std::vector<Prompt> prompts_;  ///< prompts, on rank 0 alone
  /// Tokenizer, on rank 0 or on all ranks; null if the model has none.
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::vector<GenerationRequest> requests_;
  GenerationOptions options_;
  std::unique_ptr<CachedForward> forward_;  ///< null if there are no samples
};

}  // namespace sluice
