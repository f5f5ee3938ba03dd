#include "process/status_file.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "io/path.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace sluice {

namespace {

namespace fs = std::filesystem;

constexpr const char* kStatusFile = "status.json";

}  // namespace

std::string json_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json read_status(const fs::path& directory) {
  const fs::path file = directory / kStatusFile;
  if (!path_exists(file)) return nlohmann::json::object();
  auto status = nlohmann::json::parse(read_text_file(file, kMiB), nullptr, /*allow_exceptions=*/false);
  if (!status.is_object())
    fail({ExitCode::kBadData, "job.not_a_run"}, "{}: expected a JSON object", file.string());
  return status;
}

nlohmann::json status_if_readable(const fs::path& directory) try {
  return read_status(directory);
} catch (const std::exception&) {
  return nlohmann::json::object();
}

void write_status(const fs::path& directory, const nlohmann::json& status, Durability durability) {
  write_text_file(directory / kStatusFile,
                  status.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", durability);
}

std::optional<double> number_in(const nlohmann::json& status, std::string_view key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string text_in(const nlohmann::json& status, std::string_view key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_string() ? found->get<std::string>() : "";
}

bool has_ended(const nlohmann::json& status) {
  const std::string state = text_in(status, "state");
  return state == "done" || state == "saved" || state == "failed";
}

std::string progress_text(const nlohmann::json& status) {
  for (const std::string_view unit : kProgressUnits) {
    const auto done = status.find(std::string(unit)), total = status.find(std::string(unit) + "s");
    if (done == status.end() || !done->is_number_integer()) continue;
    return fmt::format("{} {}/{}", unit, done->get<std::int64_t>(),
                       total != status.end() && total->is_number_integer() ? total->dump() : "-");
  }
  return "-";
}

}  // namespace sluice
