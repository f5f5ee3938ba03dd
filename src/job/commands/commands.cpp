#include "job/commands/commands.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "device/devices.hpp"
#include "io/hdf5.hpp"
#include "job/job.hpp"
#include "process/console.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sluice {
namespace {

/// How the text of an option is read, and what it may be.
struct AmountText {
  std::optional<std::int64_t> (*parse)(std::string_view text);
  std::string_view expected;
};

void add_amount(CLI::App& command, const std::string& option, std::optional<std::int64_t>& amount,
                const std::string& help, const AmountText& text_of_amount) {
  command.add_option_function<std::string>(
      option,
      [&amount, option, text_of_amount](const std::string& text) {
        amount = text_of_amount.parse(text);
        if (!amount)
          throw CLI::ValidationError(option, fmt::format("'{}' is not {}", text, text_of_amount.expected));
      },
      help);
}

}  // namespace

void add_job_arguments(CLI::App& command, JobArguments& arguments, const char* file) {
  command.add_option("job", arguments.file, file)->required();
  add_texts(command, "--set", arguments.overrides, "table.key=value; may be repeated");
}

CLI::Option* add_ranks(CLI::App& command, const char* option, int& ranks, const char* help) {
  return command.add_option(option, ranks, help)->check(CLI::Range(1, 1 << 20));
}

void add_size(CLI::App& command, const std::string& option, std::optional<std::int64_t>& bytes,
              const std::string& help) {
  add_amount(command, option, bytes, help, {parse_bytes, "a size with its unit, such as 128.5GB or 120GiB"});
}

void add_link_rate(CLI::App& command, const std::string& option, std::optional<std::int64_t>& rate,
                   const std::string& help) {
  add_amount(command, option, rate, help, {parse_link_rate, "a rate with its unit, such as 1Gbit or 100MB"});
}

CLI::Option* add_machine(CLI::App& command, MachineArguments& machine) {
  CLI::Option* ranks = add_ranks(command, "--ranks", machine.ranks, "Number of ranks to plan for");
  command.add_option("--nodes", machine.nodes, "Number of nodes, which share the ranks; default: one a rank")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--threads", machine.threads, "Compute threads of a rank; default: as a run here has")
      ->check(CLI::Range(1, 1 << 16));
  add_size(command, "--memory", machine.memory_bytes,
           "Memory of one rank, such as 128.5GB; default: what is here");
  return ranks;
}

CLI::Option* add_texts(CLI::App& command, const char* option, std::vector<std::string>& values,
                       const char* help) {
  return command.add_option(option, values, help)->expected(1)->allow_extra_args(false)->take_all();
}

void print_json(const nlohmann::json& value) {
  console::write_line(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (word.starts_with('-') || std::ranges::find(names, word) != names.end()) return "";
  const std::string near = nearest(word, names);
  return fmt::format("sluice: there is no command {}{}; sluice --help lists them", printable(word),
                     near.empty() ? "" : ". Did you mean " + near + "?");
}

Words take_rank_command(Words& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto name = std::find_if(
      words.begin(), end, [](const std::string& word) { return word == "generate" || word == "chat"; });
  if (words.empty() || words.front() != "launch" || name == end) return {};
  Words command(name, end);
  words.erase(name + 1, end);
  return command;
}

std::string versions_text() {
  const Job* const compute = find_job(JobKind::kTrain);
  const bool has_blas = compute != nullptr && compute->version_line != nullptr;
  return fmt::format("sluice {} ({})\nLibTorch {}\noneDNN {}\n{}\nHDF5 {}\n{}\n{}\n{}", version(),
                     git_revision(), SLUICE_TORCH_VERSION, SLUICE_ONEDNN_VERSION,
                     MpiEnvironment::library_version(), hdf5::library_version(), cuda_version_text(),
                     nccl_version_text(),
                     has_blas ? compute->version_line()
                              : "BLAS: sluice-train --version names the one that it computes with");
}

}  // namespace sluice
