#include "generation.hpp"

#include "comm/run_together.hpp"
#include "job/answers/prompts.hpp"
#include "process/console.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace sluice {

GenerationOptions generation_options(const JobConfig& config) {
  GenerationOptions options{.settings = config.generate};
  if (!config.generate.ignore_eos) options.end_tokens = read_end_tokens(config.model.path);
  return options;
}

JobPrompts prompts_of(JobContext& context) {
  const JobConfig& config = context.config();
  const bool is_command = context.request != nullptr;
  JobPrompts read = is_command ? JobPrompts(*context.request) : JobPrompts();
  if (!is_command && !config.generate.stop.empty())
    run_together(context.comm, [&] { read.tokenizer = tokenizer_for_stops(config.model.path); });
  run_on_root(context.comm, [&] {
    if (!is_command) read = read_job_prompts(config, context.blueprint.model.config, read.tokenizer);
    const std::string unused = unused_keys_text(read.prompts);
    if (!unused.empty()) console::line("prompts   {}", unused);
  });
  return read;
}

std::vector<GenerationRequest> share_requests(Communicator& comm,
                                              const std::function<std::vector<GenerationRequest>()>& make) {
  using nlohmann::json;
  const std::string text = share_from_root(comm, [&] {
    json list = json::array();
    for (const GenerationRequest& request : make()) list.push_back({request.number, request.prompt});
    return list.dump();
  });
  std::vector<GenerationRequest> requests;
  for (const json& request : json::parse(text)) requests.push_back({request[0], request[1]});
  return requests;
}

}  // namespace sluice
