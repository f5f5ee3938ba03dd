#include "config/job_copy.hpp"

#include "base/error.hpp"
#include "config/toml_source.hpp"

#include <fstream>
#include <string_view>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// First line of every copy, and of no other job file.
constexpr std::string_view kFirstLine = "# Written by sluice: the job with every key.";
/// Start of a copy's second line; a TOML string follows.
constexpr std::string_view kStartedIn = "# Relative paths begin in ";

/// Path in a copy's second line; "" if the line names none.
fs::path started_in(const std::string& line) {
  if (!line.starts_with(kStartedIn)) return {};
  return text_in_toml(line.substr(kStartedIn.size()));
}

}  // namespace

std::string job_copy_text(const JobConfig& config, const fs::path& started_in) {
  return fmt::format("{}\n{}{}\n{}", kFirstLine, kStartedIn, toml_text(Value(started_in.string())),
                     to_toml(config));
}

bool is_job_copy(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  return std::getline(in, line) && line == kFirstLine;
}

JobCopy read_job_copy(const fs::path& file) {
  JobCopy copy{load_job_config(file), {}};
  std::ifstream in(file);
  std::string line;
  if (std::getline(in, line) && line == kFirstLine && std::getline(in, line))
    copy.started_in = started_in(line);
  return copy;
}

fs::path from_start(const fs::path& started_in, const fs::path& path) {
  return path.empty() || started_in.empty() ? path : (started_in / path).lexically_normal();
}

}  // namespace sluice
