#include "base/log.hpp"

#include "base/error.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::level::level_enum level_from_environment() {
  const char* name = std::getenv("SLUICE_LOG");
  const std::string_view text = name ? name : "";
  if (text == "debug") return spdlog::level::debug;
  if (text == "warning") return spdlog::level::warn;
  if (text == "error") return spdlog::level::err;
  return spdlog::level::info;
}

/// Pattern of log lines, kept because a sink that is added later does not take it from the logger.
std::string& pattern() {
  static std::string pattern = "%T %L %v";
  return pattern;
}

/// Sink that all log files share; safe to change while other threads log.
spdlog::sinks::dist_sink_mt& files() {
  static const auto instance = std::make_shared<spdlog::sinks::dist_sink_mt>();
  return *instance;
}

/// Sinks of all log lines: stderr first, then the files.
spdlog::sinks::dist_sink_mt& sinks() {
  static const std::shared_ptr<spdlog::sinks::dist_sink_mt> instance = [] {
    auto errors = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    errors->set_level(level_from_environment());
    // Sinks live as long as the program, so the pointer owns nothing.
    const std::shared_ptr<spdlog::sinks::sink> all_files(std::shared_ptr<void>(), &files());
    return std::make_shared<spdlog::sinks::dist_sink_mt>(
        std::vector<spdlog::sink_ptr>{std::move(errors), all_files});
  }();
  return *instance;
}

/// Tells once, on stderr, that log lines are lost: a full disk must not end a job that only logs.
void tell_of_loss(const std::string& cause) {
  static std::atomic<bool> has_told = false;
  if (has_told.exchange(true)) return;
  const std::string text = "lines of the log are lost: " + cause;
  sinks().sinks().front()->log(
      {spdlog::source_loc{}, "sluice", spdlog::level::warn, spdlog::string_view_t(text.data(), text.size())});
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    // Sinks live as long as the program, so the logger's pointer owns nothing.
    const std::shared_ptr<spdlog::sinks::sink> shared(std::shared_ptr<void>(), &sinks());
    auto made = std::make_shared<spdlog::logger>("sluice", shared);
    made->set_level(spdlog::level::debug);
    made->flush_on(spdlog::level::debug);
    made->set_pattern(pattern());
    made->set_error_handler(tell_of_loss);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_rank(int rank, int size) {
  pattern() = fmt::format("[{}/{}] %T %L %v", rank, size);
  logger().set_pattern(pattern());
}

void set_level(Level level) { sinks().sinks().front()->set_level(to_spdlog(level)); }

void add_file(const std::string& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    sink->set_pattern(pattern());
    files().add_sink(std::move(sink));
  } catch (const spdlog::spdlog_ex& e) {
    fail(ExitCode::kIo, "cannot open the log file {}: {}", path, e.what());
  }
}

void close_files() { files().set_sinks({}); }

void write(Level level, std::string_view text) {
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

void record(Level level, std::string_view text) try {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    files().log({spdlog::source_loc{}, logger().name(), to_spdlog(level),
                 spdlog::string_view_t(line.data(), line.size())});
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  files().flush();
} catch (const spdlog::spdlog_ex& error) {
  tell_of_loss(error.what());
}

}  // namespace sluice::log
