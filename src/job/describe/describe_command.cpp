#include "base/version.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "job/commands/commands.hpp"
#include "job/describe/descriptions.hpp"

#include <filesystem>

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct DescribeArguments {
  fs::path directory;
};

/// Writes the files that an installation has beside the program: man1/*.1, and completions under the names
/// that shells look for.
int describe_command(const CLI::App& app, const DescribeArguments& arguments) {
  const CommandText program = command_tree(app);
  const auto write = [&](const fs::path& name, const std::string& text) {
    const fs::path file = arguments.directory / name;
    make_directories(file.parent_path());
    write_text_file(file, text);
  };
  for (const auto& [name, text] : manual_pages(program, std::string(version())))
    write(fs::path("man1") / name, text);
  write("bash/sluice", bash_completion(program));
  write("zsh/_sluice", zsh_completion(program));
  return 0;
}

}  // namespace

void add_describe(CommandLine& line) {
  const auto [command, arguments] = add_command<DescribeArguments>(
      line, "describe", "Write manual pages and completions, as the build does",
      [&app = line.app](const DescribeArguments& told) { return describe_command(app, told); });
  command.group("");  // hidden from --help, because only the build uses it
  command.add_option("directory", arguments.directory, "Directory to write into")->required();
}

}  // namespace sluice
