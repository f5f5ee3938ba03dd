#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/outcome.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "job/console.hpp"
#include "job/run_lock.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json status_of(const fs::path& run) {
  Json status = read_status(run);
  if (status.empty())
    fail(ExitCode::kBadData, "{}: there is no status.json; expected a run directory, the job.output of a job",
         run.string());
  if (!status.contains("state") || !status["state"].is_string())
    fail(ExitCode::kBadData, "{}: found no status of a run", (run / "status.json").string());
  // What was killed could not write down its end.
  if (!status.contains("exit_code") && !is_running(run, status)) status["state"] = "killed";
  status["run"] = run.string();
  return status;
}

double number_in(const Json& status, const char* key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_number() ? found->get<double>() : -1;
}

std::string text_in(const Json& status, const char* key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_string() ? printable(found->get<std::string>()) : "-";
}

std::string with_number(const Json& status, const char* key, fmt::format_string<double&> format) {
  double number = number_in(status, key);
  return number < 0 ? "-" : fmt::format(format, number);
}

std::vector<std::string> row_of(const Json& status) {
  const bool has_ended = status.contains("exit_code") || status["state"] == "killed";
  const std::string saved = with_number(status, "saved_step", "step {:.0f}");
  return {text_in(status, "run"),
          text_in(status, "state"),
          number_in(status, "step") < 0
              ? "-"
              : with_number(status, "step", "{:.0f}") + "/" + with_number(status, "steps", "{:.0f}"),
          with_number(status, "loss", "{:.5f}"),
          with_number(status, "tokens_per_second", "{:.0f}"),
          has_ended ? "-" : console::time_text(number_in(status, "seconds_left")),
          saved == "-" ? saved : saved + ", " + text_in(status, "saved"),
          with_number(status, "exit_code", "{:.0f}")};
}

}  // namespace

int status_command(const StatusArguments& arguments) {
  Json all = Json::array();
  for (const fs::path& run : arguments.runs) all.push_back(status_of(run));
  if (arguments.json) {
    console::write_line(all.dump(2, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  std::vector<std::vector<std::string>> rows{
      {"run", "state", "step", "loss", "tokens/s", "left", "last save", "exit code"}};
  for (const Json& status : all) rows.push_back(row_of(status));
  console::write_line(console::table(rows));
  for (const Json& status : all)
    if (status.contains("message"))
      console::line("{}: {}", text_in(status, "run"), text_in(status, "message"));
  return 0;
}

}  // namespace sluice
