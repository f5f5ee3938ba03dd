#include "generation.hpp"

#include "comm/run_together.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/answers/prompts.hpp"
#include "job/console.hpp"

#include <nlohmann/json.hpp>

namespace sluice {

GenerationOptions generation_options(const JobConfig& config) {
  GenerationOptions options{.settings = config.generate};
  if (!config.generate.ignore_eos) options.end_tokens = read_end_tokens(config.model.path);
  return options;
}

std::shared_ptr<const text::Tokenizer> find_tokenizer_for_stops(JobContext& context) {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  if (context.config().generate.stop.empty()) return tokenizer;
  const std::filesystem::path& model = context.config().model.path;
  run_together(context.comm, [&] { tokenizer = tokenizer_for_stops(model); });
  return tokenizer;
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

void tell_unused_keys(const std::vector<Prompt>& prompts) {
  if (const std::string text = unused_keys_text(prompts); !text.empty()) console::line("prompts   {}", text);
}

}  // namespace sluice
