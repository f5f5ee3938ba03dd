// Findings: collects all faults instead of stopping at the first.
#pragma once

#include "comm/outcome.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The file and the key of a job that a failure is about; "" for what it does not tell.
struct FailurePlace {
  std::string file;
  std::string key;  ///< "train.steps", or one that there is none of
};
/// The place with which the text of a failure begins: "job.toml:3:1: train.step: ...", "model.path: /models/x: ...".
[[nodiscard]] FailurePlace place_of(std::string_view text);

class Findings {
 public:
  /// Runs a part of an examination; an exception is a finding, unless an earlier part had the same one.
  void examine(const std::function<void()>& part);

  /// Findings in the order in which they came.
  [[nodiscard]] const std::vector<Outcome>& all() const { return found_; }
  [[nodiscard]] bool empty() const { return found_.empty(); }
  /// Exit code of the first finding; kDone if there is none.
  [[nodiscard]] ExitCode code() const { return empty() ? ExitCode::kDone : found_.front().code; }
  /// Text of the findings in the order in which they came, numbered below `title` if there are several.
  [[nodiscard]] std::string text(std::string_view title) const;

 private:
  std::vector<Outcome> found_;
};

}  // namespace sluice
