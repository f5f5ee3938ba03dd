// Jobs of commands whose options set keys of the job.
#pragma once

#include "config/job_config.hpp"

#include <span>
#include <string>

namespace sluice {

/// A key that an option of a command sets: "--temperature", "generate.temperature", "0.5".
struct OptionValue {
  std::string option;
  std::string key;
  std::string value;  ///< value in the form that an override has
};

/// The job of a command, which messages call `command`: what its options set, then overrides
/// "table.key=value". Errors as load_job_config(), with the option for a value that one gives.
[[nodiscard]] JobConfig job_of_options(const std::string& command, std::span<const OptionValue> options,
                                       std::span<const std::string> overrides);

}  // namespace sluice
