#include "job/hand_over.hpp"

#include "base/error.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;
namespace {

fs::path program_beside_this(std::string_view name) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / name;
  if (!fs::exists(program))
    fail(ExitCode::kBadConfig,
         "job.kind: jobs of this kind are run by {}, which is not there: it is built and installed together "
         "with sluice",
         program.string());
  return program;
}

std::vector<std::string> run_words(const fs::path& program, const JobArguments& arguments) {
  std::vector<std::string> words{program.string(), "run"};
  for (const std::string& change : arguments.overrides) words.insert(words.end(), {"--set", change});
  words.insert(words.end(), {"--", arguments.file.string()});
  return words;
}

}  // namespace

void hand_over(const Job& job, const JobArguments& arguments) {
  if (job.program.empty()) return;
  const fs::path program = program_beside_this(job.program);
  std::vector<std::string> words = run_words(program, arguments);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // Read when the program loads: threads that wait for work of their own must not take a core from another
  // rank.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  execv(program.c_str(), pointers.data());
  fail(ExitCode::kInternal, "{}: could not be started: {}", program.string(), std::strerror(errno));
}

}  // namespace sluice
