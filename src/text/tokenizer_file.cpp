// Reads a Tokenizer from its file; tokenizer.cpp works with it.
#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "text/tiktoken_file.hpp"
#include "text/tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace sluice::text {
namespace {

constexpr std::int64_t kMostFileBytes = std::int64_t{256} << 20;

template <class Part>
Part part_of(const JsonNode& document, const char* key) {
  return document.has(key) ? Part(document.object(key)) : Part();
}

Bpe bpe_of(const JsonNode& document) {
  const bool has_bytes = part_of<PreTokenizer>(document, "pre_tokenizer").is_byte_level();
  return {document.object("model"), has_bytes ? WordUnits::kBytes : WordUnits::kCharacters};
}

}  // namespace

std::optional<std::filesystem::path> Tokenizer::find(const std::filesystem::path& directory) {
  for (const std::string_view name : {std::string_view("tokenizer.json"), kTiktokenFile})
    if (std::filesystem::exists(directory / name)) return directory / name;
  return std::nullopt;
}

Tokenizer Tokenizer::load(const std::filesystem::path& directory) {
  const auto path = find(directory);
  if (!path)
    fail({ExitCode::kBadData, "text.no_tokenizer"},
         "{} is missing: expected the file that Hugging Face publishes under this name, or for "
         "Kimi and Moonlight {} (tokenizer.model and vocab.json are other formats, which are not "
         "read)",
         (directory / "tokenizer.json").string(), kTiktokenFile);
  return path->filename() == kTiktokenFile ? load_tiktoken(*path) : load_json(*path);
}

Tokenizer Tokenizer::load_json(const std::filesystem::path& path) {
  const std::string content = read_text_file(path, kMostFileBytes);
  const JsonNode document = JsonNode::parse(content, path.string());
  std::vector<AddedToken> added = read_added_tokens(document);
  const std::vector<NamedToken> named = read_named_tokens(path.parent_path(), added);
  const Digest digest = named.empty() ? digest_of(content) : digest_of(content + to_text(named));
  return {document, bpe_of(document), digest, std::move(added), named};
}

/// Loads tiktoken.model. Behind the vocabulary every id has a token: one that tokenizer_config.json names, or
/// a reserved one.
Tokenizer Tokenizer::load_tiktoken(const std::filesystem::path& path) {
  require_known_tiktoken(path.parent_path());
  const std::string lines = read_text_file(path, kMostFileBytes);
  const std::vector<std::string> tokens = parse_tiktoken(lines, path.string());
  std::vector<NamedToken> named = read_named_tokens(path.parent_path(), {});
  const Digest digest = digest_of(lines + to_text(named));
  std::vector<AddedToken> added;
  const auto first = static_cast<TokenId>(tokens.size());
  for (TokenId id = first; id < first + kReservedTokens; ++id) {
    const auto name = std::ranges::find(named, std::optional(id), &NamedToken::id);
    added.push_back(name == named.end()
                        ? AddedToken{.content = reserved_token(id), .normalized = false, .special = true}
                        : name->token);
    added.back().id = id;
  }
  std::erase_if(named, [&](const NamedToken& one) {
    return std::ranges::find(added, one.token.content, &AddedToken::content) != added.end();
  });
  return {JsonNode::parse(tiktoken_document(), path.string()), Bpe(tokens, path.string()), digest,
          std::move(added), named};
}

Tokenizer Tokenizer::parse(std::string_view content, const std::string& name) {
  const JsonNode document = JsonNode::parse(content, name);
  return {document, bpe_of(document), digest_of(content), read_added_tokens(document), {}};
}

Tokenizer::Tokenizer(const JsonNode& document, Bpe bpe, const Digest& digest, std::vector<AddedToken> added,
                     const std::vector<NamedToken>& named)
    : normalizer_(part_of<Normalizer>(document, "normalizer")),
      pre_tokenizer_(part_of<PreTokenizer>(document, "pre_tokenizer")),
      bpe_(std::move(bpe)),
      decoder_(DecoderRules::read(document.object("decoder"))),
      added_(std::move(added)),
      texts_(bpe_.tokens()),
      digest_(digest) {
  add_tokens(document.name(), named);
  if (document.has("post_processor")) read_frame(document.object("post_processor"));
  may_cut_ = allows_cuts();
}

void Tokenizer::add_tokens(const std::string& file, const std::vector<NamedToken>& named) {
  const auto vocabulary_size =
      std::ranges::count_if(texts_, [](const std::string& text) { return !text.empty(); });
  add_named_tokens(
      added_, named, [&](const std::string& content) { return bpe_.id_of(content); },
      static_cast<TokenId>(vocabulary_size));
  std::unordered_set<std::string> specials;
  for (const AddedToken& token : added_) {
    const std::optional<TokenId> known = bpe_.id_of(token.content);
    if (known && *known != token.id)
      fail({ExitCode::kBadData, "text.tokenizer"},
           "{}: the added token '{}' has the id {}, and {} in the vocabulary", file, printable(token.content),
           token.id, *known);
    const auto index = static_cast<std::size_t>(token.id);
    if (index >= texts_.size()) texts_.resize(index + 1);
    if (!texts_[index].empty() && texts_[index] != token.content)
      fail({ExitCode::kBadData, "text.tokenizer"}, "{}: the added token '{}' has the id {} of '{}'", file,
           printable(token.content), token.id, printable(texts_[index]));
    // A normalized token is searched in, and decoded as, the normalized text.
    texts_[index] = token.normalized ? normalizer_.apply(token.content, {}) : token.content;
    if (token.special) specials.insert(texts_[index]);
    (token.normalized ? normalized_tokens_ : raw_tokens_).add(texts_[index], token);
  }
  is_special_.resize(texts_.size());
  for (std::size_t id = 0; id < texts_.size(); ++id) is_special_[id] = specials.contains(texts_[id]);
}

void Tokenizer::read_frame(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "Sequence")
    for (const JsonNode& step : node.items("processors")) read_frame(step);
  else if (type == "TemplateProcessing")
    read_template(node);
  else if (type != "ByteLevel")  // ByteLevel only changes offsets
    node.refuse("type", "one of the supported post-processors: TemplateProcessing, ByteLevel, Sequence");
}

void Tokenizer::read_template(const JsonNode& node) {
  if (!frame_before_.empty() || !frame_behind_.empty()) node.refuse("type", "one TemplateProcessing");
  bool is_behind = false;
  for (const JsonNode& piece : node.items("single")) {
    if (piece.has("Sequence")) {
      if (std::exchange(is_behind, true)) node.refuse("single", "the text once");
      continue;
    }
    const std::vector<TokenId> ids = template_ids(node, piece);
    std::vector<TokenId>& side = is_behind ? frame_behind_ : frame_before_;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!is_behind) node.refuse("single", "the text once");
}

std::vector<TokenId> Tokenizer::template_ids(const JsonNode& node, const JsonNode& piece) const {
  const std::string name = piece.object("SpecialToken").text("id");
  const JsonNode special = node.object("special_tokens").object(name.c_str());
  std::vector<TokenId> ids;
  if (!special.has("ids") || !special.value()["ids"].is_array()) special.refuse("ids", "a list of token ids");
  for (const auto& id : special.value()["ids"]) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(texts_.size()))
      special.refuse("ids", "ids of tokens");
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

/// Whether no step before the words depends on both sides of a cut.
bool Tokenizer::allows_cuts() const {
  const bool words_do = pre_tokenizer_.cuts() != Cuts::kNowhere ||
                        (!pre_tokenizer_.has_patterns() && !pre_tokenizer_.is_byte_level());
  return raw_tokens_.allows_cuts() && normalized_tokens_.allows_cuts() && normalizer_.keeps_line_breaks() &&
         words_do;
}

}  // namespace sluice::text
