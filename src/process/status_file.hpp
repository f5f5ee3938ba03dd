// status.json of a run directory: what a job tells of itself while it runs, and of its end.
#pragma once

#include "io/file.hpp"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// Units of progress: the steps of a training, the sequences of an evaluation, the prompts of a generation.
/// Loads and exports count nothing.
inline constexpr std::array<std::string_view, 3> kProgressUnits{"step", "sequence", "prompt"};

/// JSON object in status.json of a run's directory; empty if there is no such file. Error(kBadData) if it is
/// not a JSON object.
[[nodiscard]] nlohmann::json read_status(const std::filesystem::path& directory);

/// Status of a run's directory; {} if it cannot be read, because it may be another program's.
[[nodiscard]] nlohmann::json status_if_readable(const std::filesystem::path& directory);

/// Replaces the status of a run's directory. Error(kIo) if the system refuses.
void write_status(const std::filesystem::path& directory, const nlohmann::json& status,
                  Durability durability = Durability::kDisk);

/// Number, or text, of a status under a key; nothing, or "", if there is none.
[[nodiscard]] std::optional<double> number_in(const nlohmann::json& status, std::string_view key);
[[nodiscard]] std::string text_in(const nlohmann::json& status, std::string_view key);

/// Whether a status records the end of its job.
[[nodiscard]] bool has_ended(const nlohmann::json& status);

/// Progress of a job by its status, "step 3/8" or "sequence 12/400"; "-" if it counts nothing, or nothing
/// yet.
[[nodiscard]] std::string progress_text(const nlohmann::json& status);

/// Text of a JSON value: without quotes for a string, as JSON for any other value.
[[nodiscard]] std::string json_text(const nlohmann::json& value);

}  // namespace sluice
