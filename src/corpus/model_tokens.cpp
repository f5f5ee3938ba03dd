#include "corpus/model_tokens.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "text/json_node.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <tuple>
#include <utility>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using text::JsonNode;

constexpr std::int64_t kMostBytes = 64 << 20;

std::optional<JsonNode> settings(const fs::path& path) {
  if (!path_exists(path)) return std::nullopt;
  return JsonNode::parse(read_text_file(path, kMostBytes), path.string());
}

/// Object of config.json with `key`: the document itself, or its description of the text model.
JsonNode text_config(const fs::path& directory, const char* key) {
  const fs::path path = directory / "config.json";
  const std::optional<JsonNode> config = settings(path);
  if (!config) fail(ExitCode::kBadData, "{} is missing; it says how many ids the model knows", path.string());
  return !config->has(key) && config->has("text_config") ? config->object("text_config") : *config;
}

/// A token in tokenizer_config.json: a text, or an object with a "content".
std::optional<std::string> named_token(const JsonNode& node, const char* key) {
  if (!node.has(key)) return std::nullopt;
  return node.value()[key].is_object() ? node.object(key).text("content") : node.text(key);
}

std::optional<text::TokenId> end_in_config(const fs::path& directory) {
  const JsonNode config = text_config(directory, "eos_token_id");
  if (!config.has("eos_token_id")) return std::nullopt;
  const json& value = config.value()["eos_token_id"];
  const json& first = value.is_array() && !value.empty() ? value[0] : value;
  if (!first.is_number_unsigned() || first.get<std::uint64_t>() >= static_cast<std::uint64_t>(text::kMostIds))
    config.refuse("eos_token_id", "a token id, or a list of them");
  return first.get<text::TokenId>();
}

/// Chat templates by name, each with its file.
using Templates = std::map<std::string, std::pair<std::string, std::string>>;

/// Templates in a node, whose "chat_template" may be a text or a list of named ones.
Templates templates_in(const JsonNode& node) {
  Templates found;
  if (!node.has("chat_template")) return found;
  if (node.value()["chat_template"].is_string())
    return {{"default", {node.name(), node.text("chat_template")}}};
  for (const JsonNode& named : node.items("chat_template"))
    found[named.text("name")] = {node.name(), named.text("template")};
  if (!found.contains("default") && !found.contains("tool_use"))
    node.refuse("chat_template", "a text, or a list with one named \"default\"");
  return found;
}

/// Templates that have files of their own.
Templates template_files(const fs::path& directory) {
  Templates found;
  const auto add = [&](const char* name, const fs::path& file) {
    if (path_exists(file)) found[name] = {file.string(), read_text_file(file, kMostBytes)};
  };
  add("default", directory / "chat_template.jinja");
  add("tool_use", directory / "additional_chat_templates" / "tool_use.jinja");
  return found;
}

}  // namespace

std::int64_t read_vocab_size(const fs::path& directory) {
  return text_config(directory, "vocab_size").integer("vocab_size", 1, text::kMostIds);
}

text::TokenId read_end_token(const fs::path& directory, const text::Tokenizer& tokenizer,
                             const std::string& wanted) {
  if (!wanted.empty()) {
    if (const std::optional<text::TokenId> id = tokenizer.id_of(wanted)) return *id;
    fail(ExitCode::kUsage, "--eos: '{}' is no token of {}", printable(wanted),
         (directory / "tokenizer.json").string());
  }
  const std::optional<JsonNode> config = settings(directory / "tokenizer_config.json");
  if (const std::optional<std::string> name = config ? named_token(*config, "eos_token") : std::nullopt) {
    if (const std::optional<text::TokenId> id = tokenizer.id_of(*name)) return *id;
    fail(ExitCode::kBadData, "{}: eos_token is '{}', which is no token of tokenizer.json", config->name(),
         printable(*name));
  }
  if (const std::optional<text::TokenId> id = end_in_config(directory)) return *id;
  fail(ExitCode::kBadData,
       "{} does not say which token ends a document: neither eos_token in tokenizer_config.json nor "
       "eos_token_id in config.json; name it with --eos TOKEN, or say --no-eos",
       directory.string());
}

ChatTemplate read_chat_template(const fs::path& directory, const fs::path& file) {
  ChatTemplate made;
  made.name = (directory / "tokenizer_config.json").string();
  Templates found = template_files(directory);
  if (const std::optional<JsonNode> config = settings(made.name)) {
    if (file.empty() && found.empty()) found = templates_in(*config);
    for (const char* key :
         {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"})
      if (const std::optional<std::string> token = named_token(*config, key)) made.tokens[key] = *token;
  }
  if (!file.empty()) found = {{"default", {file.string(), read_text_file(file, kMostBytes)}}};
  if (found.contains("default")) std::tie(made.name, made.text) = found["default"];
  if (found.contains("tool_use")) std::tie(made.tools_name, made.tools_text) = found["tool_use"];
  return made;
}

}  // namespace sluice::corpus
