#include "corpus/model_tokens.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "text/json_node.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <span>
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
  if (!config)
    fail({ExitCode::kBadData, "corpus.special_tokens"}, "{} is missing; it says how many ids the model knows",
         path.string());
  return !config->has(key) && config->has("text_config") ? config->object("text_config") : *config;
}

bool is_token_id(std::int64_t id) { return id >= 0 && id < text::kMostIds; }

/// The tokenizer's eos_token; nothing if its files name none. Error(kBadData) if it is no token.
std::optional<text::TokenId> named_end(const fs::path& directory, const text::Tokenizer& tokenizer) {
  const std::map<std::string, text::NamedToken> special = text::read_special_tokens(directory);
  const auto found = special.find("eos_token");
  if (found == special.end()) return std::nullopt;
  if (const std::optional<text::TokenId> id = tokenizer.id_of(found->second.token.content)) return id;
  fail({ExitCode::kBadData, "corpus.special_tokens"},
       "{}: eos_token is '{}', which is not a token of the tokenizer", found->second.file,
       printable(found->second.token.content));
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

/// A few of the special tokens, each in quotes, for messages.
std::string some_special_tokens(const text::Tokenizer& tokenizer) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> tokens;
  for (text::TokenId id = 0; id < tokenizer.id_count() && tokens.size() < kMost; ++id)
    if (tokenizer.is_special(id))
      tokens.push_back("'" + printable(tokenizer.decode(std::span(&id, 1), text::Specials::kKeep)) + "'");
  return tokens.empty() ? "'</s>'" : join_some(tokens);
}

}  // namespace

std::int64_t read_vocab_size(const fs::path& directory) {
  return text_config(directory, "vocab_size").integer("vocab_size", 1, text::kMostIds);
}

std::vector<std::int64_t> read_end_ids(const fs::path& file) {
  const std::optional<JsonNode> whole = settings(file);
  if (!whole) return {};
  const char* const key = "eos_token_id";
  const bool is_in_part =
      !whole->has(key) && whole->has("text_config") && whole->value()["text_config"].is_object();
  const JsonNode config = is_in_part ? whole->object("text_config") : *whole;
  if (!config.has(key)) return {};
  const json& ends = config.value()[key];
  std::vector<std::int64_t> ids;
  for (const json& id : ends.is_array() ? ends : json::array({ends})) {
    if (!id.is_number_integer()) config.refuse(key, "a token id, or a list of them");
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

text::TokenId read_end_token(const fs::path& directory, const text::Tokenizer& tokenizer,
                             const std::string& wanted) {
  if (!wanted.empty()) {
    if (const std::optional<text::TokenId> id = tokenizer.id_of(wanted)) return *id;
    fail({ExitCode::kUsage, "corpus.special_tokens"},
         "--eos: '{}' is not a token of {}; expected one token as the tokenizer writes it, such as {}",
         printable(wanted), text::Tokenizer::find(directory).value_or(directory).string(),
         some_special_tokens(tokenizer));
  }
  if (const std::optional<text::TokenId> id = named_end(directory, tokenizer)) return *id;
  const fs::path config = directory / "config.json";
  if (const std::vector<std::int64_t> ids = read_end_ids(config); !ids.empty()) {
    if (is_token_id(ids.front())) return static_cast<text::TokenId>(ids.front());
    fail({ExitCode::kBadData, "corpus.special_tokens"}, "{}: eos_token_id: found {}, expected a token id",
         config.string(), ids.front());
  }
  fail({ExitCode::kBadData, "corpus.special_tokens"},
       "{} does not say which token ends a document: neither eos_token in tokenizer_config.json or "
       "special_tokens_map.json nor eos_token_id in config.json; name it with --eos TOKEN, or say --no-eos",
       directory.string());
}

std::vector<text::TokenId> read_answer_ends(const fs::path& directory, const text::Tokenizer& tokenizer) {
  std::vector<text::TokenId> ids;
  // Chats are learnt without the ends of a broken file; answers that then teach no end are counted and told.
  const auto add_from = [&](const auto& read) {
    try {
      for (const std::int64_t id : read())
        if (is_token_id(id)) ids.push_back(static_cast<text::TokenId>(id));
    } catch (const Error&) {
      return;
    }
  };
  for (const char* file : {"generation_config.json", "config.json"})
    add_from([&] { return read_end_ids(directory / file); });
  add_from([&] {
    const std::optional<text::TokenId> id = named_end(directory, tokenizer);
    return id ? std::vector<std::int64_t>{*id} : std::vector<std::int64_t>();
  });
  return ids;
}

ChatTemplate read_chat_template(const fs::path& directory, const fs::path& file) {
  ChatTemplate made;
  made.name = (directory / "tokenizer_config.json").string();
  Templates found = template_files(directory);
  if (const std::optional<JsonNode> config = settings(made.name); config && file.empty() && found.empty())
    found = templates_in(*config);
  for (const auto& [key, named] : text::read_special_tokens(directory))
    made.tokens[key] = named.token.content;
  if (!file.empty()) found = {{"default", {file.string(), read_text_file(file, kMostBytes)}}};
  if (found.contains("default")) std::tie(made.name, made.text) = found["default"];
  if (found.contains("tool_use")) std::tie(made.tools_name, made.tools_text) = found["tool_use"];
  return made;
}

}  // namespace sluice::corpus
