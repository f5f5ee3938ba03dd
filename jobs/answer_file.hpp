// File of a job's answers, a line of JSON each, which a later run of the job continues.
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

}  // namespace sluice
