#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "export/synthesize.hpp"
#include "job/commands/commands.hpp"
#include "model/architecture.hpp"
#include "model/quantization_config.hpp"
#include "process/console.hpp"
#include "process/progress_line.hpp"
#include "weights/companion_files.hpp"

#include <functional>
#include <limits>

namespace sluice {
namespace {

struct SynthesizeArguments {
  std::filesystem::path config_directory;
  std::filesystem::path output;
  std::uint64_t seed = 0;
  bool sparse = false;
};

int synthesize_command(const SynthesizeArguments& arguments) {
  if (arguments.output.empty())
    fail(ExitCode::kUsage, "synthesize: the name of the directory to create is empty");
  const ModelDescription model = describe_published_model(arguments.config_directory);
  const KeyMap keys(model.manifest);
  ProgressLine progress("write");
  SynthesizeOptions options;
  options.standard_deviation = static_cast<float>(model.config.initializer_range);
  options.seed = arguments.seed;
  options.sparse = arguments.sparse;
  options.quantization = read_quantization(arguments.config_directory);
  const Companions companions =
      companion_files(arguments.config_directory,
                      options.quantization ? WeightStorage::kAsConfigSays : WeightStorage::kPlain);
  log_left_behind(companions, arguments.config_directory);
  options.companions = companions.files;
  options.progress = std::ref(progress);
  const SynthesizeReport report = synthesize_checkpoint(keys, arguments.output, options);
  console::line("{}: {}, {} in {}", arguments.output.string(), counted(report.tensors, "tensor"),
                format_bytes(report.bytes), counted(report.files, "file"));
  return 0;
}

}  // namespace

void add_synthesize(CommandLine& line) {
  const auto [command, arguments] = add_command<SynthesizeArguments>(
      line, "synthesize", "Write a random checkpoint of a config.json's shape", synthesize_command);
  command.add_option("config_dir", arguments.config_directory, "Directory with config.json")->required();
  command.add_option("out_dir", arguments.output, "Directory to create")->required();
  command.add_option("--seed", arguments.seed, "Seed of the weights")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max(), ">= 0"))
      ->capture_default_str();
  command.add_flag("--sparse", arguments.sparse,
                   "Leave holes instead of numbers: every weight reads as zero");
}

}  // namespace sluice
