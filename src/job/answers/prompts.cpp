#include "job/answers/prompts.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/json_object.hpp"
#include "io/path.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Of a file of prompts, which is read whole.
constexpr std::int64_t kMostPromptBytes = std::int64_t{1} << 30;

json parse_json(const std::string& text) { return json::parse(text, nullptr, /*allow_exceptions=*/false); }

bool is_id(const json& value) { return value.is_number_integer(); }

/// The ids in an array of integers.
std::optional<std::vector<std::int64_t>> ids_in(const json& value) {
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_id)) return std::nullopt;
  return value.get<std::vector<std::int64_t>>();
}

Prompt prompt_of(const std::string& line, std::size_t number, const std::string& place) {
  const json object = parse_json(line);
  if (!object.is_object())
    fail(ExitCode::kBadData, "{}: found {}, expected a JSON object with \"prompt\" or \"tokens\"", place,
         printable(line.substr(0, 40)));
  Prompt prompt{object.contains("id") ? object["id"].dump() : fmt::format("{}", number)};
  const json text = object.value("prompt", json());
  const auto ids = ids_in(object.value("tokens", json()));
  const bool is_chat = object.contains("messages") && object["messages"].is_array();
  if (text.is_string() + ids.has_value() + is_chat != 1)
    fail(
        ExitCode::kBadData,
        "{}: expected one of \"prompt\", a text, \"messages\", a conversation, and \"tokens\", an array of token ids",
        place);
  if (ids)
    prompt.tokens = *ids;
  else if (is_chat)
    prompt.messages = nlohmann::ordered_json::parse(line)["messages"].dump();
  else
    prompt.text = text.get<std::string>();
  return prompt;
}

/// The end tokens that a JSON file of the model names, if it is there and does.
std::vector<std::int64_t> end_tokens_in(const fs::path& file) {
  if (!path_exists(file)) return {};
  json config = parse_json_object(read_text_file(file, kMostPromptBytes), file.string() + ": ");
  const auto names_none = [&] { return config.value("eos_token_id", json()).is_null(); };
  if (names_none() && config.value("text_config", json()).is_object()) config = json(config["text_config"]);
  if (names_none()) return {};
  const json ends = config["eos_token_id"];
  if (is_id(ends)) return {ends.get<std::int64_t>()};
  if (const auto ids = ids_in(ends)) return *ids;
  fail(ExitCode::kBadData, "{}: eos_token_id: found {}, expected a token id, or a list of them",
       file.string(), shown_json(ends));
}

}  // namespace

std::string name_of(const Prompt& prompt) {
  return fmt::format("{}prompt {}", prompt.place.empty() ? "" : prompt.place + ": ", prompt.id);
}

std::vector<std::int64_t> parse_token_ids(std::string_view text) {
  std::vector<std::int64_t> ids;
  for (const char* at = text.data(); at <= text.data() + text.size(); ++at) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), id);
    if (error != std::errc() || id < 0 || (end != text.data() + text.size() && *end != ','))
      fail(ExitCode::kUsage, "--prompt-tokens: found {}, expected token ids such as 5,17,42",
           printable(std::string(text)));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

std::vector<Prompt> read_prompts(const fs::path& file) {
  const std::string text = read_text_file(file, kMostPromptBytes);
  const bool is_jsonl = file.extension() == ".jsonl";
  std::vector<Prompt> prompts;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (is_jsonl)
      prompts.push_back(prompt_of(line, prompts.size(), fmt::format("{}:{}", file.string(), line_number)));
    else
      prompts.push_back({fmt::format("{}", prompts.size()), line.substr(0, line.find_last_not_of('\r') + 1)});
    prompts.back().place = fmt::format("{}:{}", file.string(), line_number);
  }
  if (prompts.empty()) fail(ExitCode::kBadData, "{}: found no prompt", file.string());
  return prompts;
}

void require_answerable(const std::vector<Prompt>& prompts, const ModelConfig& model,
                        std::int64_t positions) {
  for (const Prompt& prompt : prompts) {
    if (prompt.tokens.empty()) fail(ExitCode::kBadData, "{} has no tokens", name_of(prompt));
    const auto bad = std::ranges::find_if(prompt.tokens,
                                          [&](std::int64_t id) { return id < 0 || id >= model.vocab_size; });
    if (bad != prompt.tokens.end())
      fail(ExitCode::kBadData, "{} has the token id {}, but the model's vocabulary ends at {}",
           name_of(prompt), *bad, model.vocab_size - 1);
    if (std::ssize(prompt.tokens) >= positions)
      fail(ExitCode::kBadData,
           "{} has {} tokens, and a sequence at most {}, prompt and answer together: as many as "
           "generate.positions says, and the model's max_position_embeddings ({})",
           name_of(prompt), prompt.tokens.size(), positions,
           model.max_positions > 0 ? fmt::to_string(model.max_positions) : "none");
  }
}

std::int64_t usable_positions(const ModelConfig& model, std::int64_t wanted) {
  return model.max_positions > 0 ? std::min(wanted, model.max_positions) : wanted;
}

std::vector<std::int64_t> read_end_tokens(const fs::path& directory) {
  const std::vector<std::int64_t> ends = end_tokens_in(directory / "generation_config.json");
  return ends.empty() ? end_tokens_in(directory / "config.json") : ends;
}

}  // namespace sluice
