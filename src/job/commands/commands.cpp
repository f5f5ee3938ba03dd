#include "job/commands/commands.hpp"

#include "base/bytes.hpp"

namespace sluice {

void add_job_arguments(CLI::App& command, JobArguments& arguments, const char* file) {
  command.add_option("job", arguments.file, file)->required();
  command.add_option("--set", arguments.overrides, "table.key=value; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

CLI::Option* add_ranks(CLI::App& command, const char* option, int& ranks, const char* help) {
  return command.add_option(option, ranks, help)->check(CLI::Range(1, 1 << 20));
}

void add_size(CLI::App& command, const std::string& option, std::optional<std::int64_t>& bytes,
              const std::string& help) {
  command.add_option_function<std::string>(
      option,
      [&bytes, option](const std::string& text) {
        bytes = parse_bytes(text);
        if (!bytes)
          throw CLI::ValidationError(option,
                                     "'" + text + "' is no size with its unit, such as 128.5GB or 120GiB");
      },
      help);
}

CLI::Option* add_texts(CLI::App& command, const char* option, std::vector<std::string>& values,
                       const char* help) {
  return command.add_option(option, values, help)->expected(1)->allow_extra_args(false)->take_all();
}

}  // namespace sluice
