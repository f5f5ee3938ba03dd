// Prompts on their way into a generation, and its answers on their way out.
#pragma once

#include "answer_file.hpp"
#include "answer_texts.hpp"
#include "base/clock.hpp"
#include "generate/generator.hpp"
#include "job/job.hpp"
#include "train/phase_timer.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

class GenerateReport {
 public:
  /// Collective over the job's ranks. The prompts are those of the command line, or of generate.prompts,
  /// which rank 0 reads; those that an earlier run has answered are left out. Error(kBadData) for one that
  /// cannot be answered.
  explicit GenerateReport(JobContext& context);

  /// Requests, the same on every rank.
  [[nodiscard]] const std::vector<GenerationRequest>& requests() const { return requests_; }
  /// Whether an earlier run of the job has answered every prompt, alike on all ranks; rank 0 says so.
  [[nodiscard]] bool is_done_already();
  /// The time begins.
  void begin();
  /// Takes a token on the rank of the request. Returns whether its answer is to end here.
  [[nodiscard]] bool take_token(std::size_t request, std::int64_t token);
  /// Takes an answer, on rank 0.
  void take_answer(const Generation& answer);
  /// How many there were, and how fast; `phases` since begin(), of which the wait for a disk is told.
  void finish(const PhaseSeconds& phases);

 private:
  /// Requests that are not answered yet, on rank 0.
  [[nodiscard]] std::vector<GenerationRequest> open_requests() const;

  JobContext& context_;
  std::vector<Prompt> prompts_;              ///< prompts, on rank 0 alone
  std::vector<GenerationRequest> requests_;  ///< requests, numbered by their prompts
  std::optional<AnswerTexts> texts_;
  std::optional<AnswerFile> file_;  ///< answer file of a job, on rank 0 alone
  Stopwatch watch_;
  double first_token_seconds_ = 0, first_token_processor_ = 0;
  double processor_begin_ = 0;
  std::int64_t tokens_ = 0, answers_ = 0;
};

}  // namespace sluice
