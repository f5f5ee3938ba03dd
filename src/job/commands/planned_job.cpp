#include "job/commands/planned_job.hpp"

#include <system_error>

namespace sluice {
namespace fs = std::filesystem;

JobConfig planned_job(const JobArguments& arguments) {
  std::error_code error;
  const bool is_config = arguments.file.filename() == "config.json";
  if (!is_config && !fs::is_directory(arguments.file, error))
    return load_job_config(arguments.file, arguments.overrides);
  const fs::path model = is_config ? arguments.file.parent_path() : arguments.file;
  JobConfig config;
  config.model.path = model.empty() ? "." : model;
  config.job.output = config.model.path / "run";  // no plan looks at these two
  config.data.tokens = config.model.path / "tokens.h5";
  return parse_job_config(to_toml(config), arguments.file.string(), arguments.overrides);
}

}  // namespace sluice
