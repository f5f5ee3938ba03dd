#include "options.hpp"

#include "base/bytes.hpp"
#include "config/job_config.hpp"

#include <charconv>
#include <system_error>

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

void add_step(CLI::App& command, std::optional<std::int64_t>& step, const char* help) {
  command.add_option_function<std::string>(
      "--step",
      [&step](const std::string& text) {
        std::int64_t number = -1;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (text == "best")
          step = kBestStep;
        else if (text == "newest")
          step = kNewestStep;
        else if (error == std::errc() && end == text.data() + text.size() && number >= 0)
          step = number;
        else
          throw CLI::ValidationError("--step", "'" + text + "' is no step: a number, newest or best");
      },
      help);
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

void add_answer_settings(CLI::App& command, GenerateArguments& arguments) {
  add_texts(command, "--stop", arguments.stops, "Text that ends an answer; may be repeated");
  const auto setting = [&](const char* option, const std::string& key, const char* help) {
    command.add_option_function<std::string>(
        option,
        [&arguments, key](const std::string& value) { arguments.settings.push_back(key + "=" + value); },
        help);
  };
  setting("--max-tokens", "generate.max_tokens", "Tokens of an answer, at most");
  setting("--temperature", "generate.temperature",
          "0, unless it is given: the most probable token each time");
  setting("--top-k", "generate.top_k", "Draw from the k most probable tokens");
  setting("--top-p", "generate.top_p", "Draw from those that together are as probable as this");
  setting("--min-p", "generate.min_p", "Draw from those this times as probable as the first");
  setting("--repetition-penalty", "generate.repetition_penalty", "Of tokens that are there already");
  setting("--seed", "generate.seed", "Of the draws");
  setting("--dtype", "model.dtype", "bfloat16 or float32");
  setting("--adapter", "model.adapter",
          "Adapter of the model: a directory that PEFT saved, a run that trained one, or a saved step");
  setting("--step", "model.step", "Saved step of a run: newest, best (lowest held-out loss) or a number");
  command.add_flag_callback(
      "--ignore-eos", [&] { arguments.settings.emplace_back("generate.ignore_eos=true"); },
      "Go on behind the model's end-of-text token");
  add_texts(command, "--set", arguments.overrides, "table.key=value of a job file; may be repeated");
}

}  // namespace sluice
