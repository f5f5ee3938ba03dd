// The answers of a job, a line of JSON each, in a file that a later run of the job goes on with.
#pragma once

#include "job/answers/prompts.hpp"
#include "job/job.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace sluice {

/// Answer file of a job, on rank 0.
class AnswerFile {
 public:
  /// Finds out which of `prompts` are answered in generate.output already; a last line that is not whole is
  /// taken away. Error(kBadConfig) if it holds other prompts' answers, or such as other settings gave;
  /// Error(kIo) if it cannot be written.
  AnswerFile(const JobContext& context, const std::vector<Prompt>& prompts);

  [[nodiscard]] bool is_answered(std::size_t prompt) const { return answered_.contains(prompt); }
  /// Writes the answer, as AnswerTexts::json_of() gives it. Error(kIo).
  void append(std::size_t prompt, nlohmann::json answer);

 private:
  [[nodiscard]] std::string digest_of_prompt(std::size_t prompt) const;
  void read_earlier();

  const std::vector<Prompt>& prompts_;
  std::filesystem::path path_;
  std::string settings_;  ///< all that an answer depends on, besides its prompt
  std::set<std::size_t> answered_;
  std::ofstream file_;
};

}  // namespace sluice
