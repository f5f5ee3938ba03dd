// Samples: answers to a few prompts by a model in training, every few steps.
#pragma once

#include "generate/generator.hpp"
#include "job/answers/job_prompts.hpp"
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
  /// Collective over the context's communicator. Rank 0 reads generate.prompts if generate.every_steps is not
  /// 0; otherwise nothing is allocated. Samples that an earlier run has made after step `steps_done` are
  /// removed.
  TrainSamples(JobContext& context, Trainer& trainer, std::int64_t steps_done);

  /// Most samples that `steps` steps can make.
  [[nodiscard]] std::int64_t most(std::int64_t steps) const {
    return forward_ == nullptr ? 0 : steps / context_.config().generate.every_steps * std::ssize(requests_);
  }
  /// Collective over the context's communicator, between steps: answers the prompts if samples are due.
  /// Prints a line for each, and writes it to generate.output. Changes nothing that training reads. Returns
  /// the samples on rank 0.
  std::vector<SampleRow> after_step(std::int64_t step);

 private:
  void keep_samples_until(std::int64_t step) const;
  void take(std::int64_t step, const Generation& answer, nlohmann::json sample) const;

  JobContext& context_;
  JobPrompts prompts_;  ///< prompts on rank 0 alone, with the tokenizer on rank 0 or on all ranks
  std::vector<GenerationRequest> requests_;
  GenerationOptions options_;
  std::unique_ptr<CachedForward> forward_;  ///< forward pass for the samples; null if there are none
};

}  // namespace sluice
