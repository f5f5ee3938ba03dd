// Prompts and answers of a generation.
#pragma once

#include "answer_texts.hpp"
#include "base/clock.hpp"
#include "generate/generator.hpp"
#include "job/answers/prompts.hpp"
#include "job/job.hpp"
#include "train/phase_timer.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sluice {

/// Answer file of a job, on rank 0.
class AnswerFile {
 public:
  /// Finds out which of `prompts` generate.output already answers; an incomplete last line is removed.
  /// Error(kBadConfig) if it holds answers to other prompts or with other settings; Error(kIo) if it cannot
  /// be written.
  AnswerFile(const JobContext& context, const std::vector<Prompt>& prompts);

  [[nodiscard]] bool is_answered(std::size_t prompt) const { return answered_.contains(prompt); }
  /// Appends an answer, as AnswerTexts::json_of() returns it. Error(kIo).
  void append(std::size_t prompt, nlohmann::json answer);

 private:
  [[nodiscard]] std::string digest_of_prompt(std::size_t prompt) const;
  void read_earlier();

  const std::vector<Prompt>& prompts_;
  std::filesystem::path path_;
  std::string settings_;  ///< settings on which answers depend, besides their prompts
  std::set<std::size_t> answered_;
  std::ofstream file_;
};

class GenerateReport {
 public:
  /// Collective over the job's ranks. Prompts come from the command line, or from generate.prompts, which
  /// rank 0 reads; those that an earlier run has answered are left out. Error(kBadData) for a prompt that
  /// cannot be answered.
  explicit GenerateReport(JobContext& context);

  /// Requests of the generation, the same on every rank.
  [[nodiscard]] const std::vector<GenerationRequest>& requests() const { return requests_; }
  /// Whether an earlier run of the job has answered every prompt, the same on all ranks; rank 0 prints it.
  [[nodiscard]] bool is_done_already();
  /// Starts the clock.
  void begin();
  /// Adds a token, on the rank of the request. Returns whether the answer ends here.
  [[nodiscard]] bool take_token(std::size_t request, std::int64_t token);
  /// Adds a complete answer, on rank 0.
  void take_answer(const Generation& answer);
  /// Prints how many answers there were and how fast; `phases` since begin() tell of waits for a disk.
  void finish(const PhaseSeconds& phases);

 private:
  /// Requests without an answer yet, on rank 0.
  [[nodiscard]] std::vector<GenerationRequest> open_requests() const;

  JobContext& context_;
  std::vector<Prompt> prompts_;              ///< prompts; of a job file on rank 0 alone
  std::vector<GenerationRequest> requests_;  ///< requests, numbered by their prompts
  std::optional<AnswerTexts> texts_;
  std::optional<AnswerFile> file_;  ///< answer file of a job, on rank 0 alone
  Stopwatch watch_;
  double first_token_seconds_ = 0, first_token_processor_ = 0;
  double processor_begin_ = 0;
  std::int64_t tokens_ = 0, answers_ = 0;
};

}  // namespace sluice
