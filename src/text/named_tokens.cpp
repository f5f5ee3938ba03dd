#include "text/named_tokens.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/json_object.hpp"
#include "io/path.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace sluice::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // JSON that keeps the order of keys, in which transformers adds tokens

constexpr std::int64_t kMostBytes = 64 << 20;
constexpr std::array<std::string_view, 7> kSpecial = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                      "pad_token", "cls_token", "mask_token"};
/// Keys that name tokens or templates, and keys that change no token of a text.
constexpr std::string_view kKnown =
    " added_tokens_decoder extra_special_tokens additional_special_tokens "
    "model_specific_special_tokens chat_template add_bos_token add_eos_token add_prefix_space "
    "auto_map backend chat_control_tokens clean_up_tokenization_spaces device_map errors "
    "fast_tokenizer_files files_loaded is_local legacy local_files_only max_len max_length "
    "model_input_names model_max_length name_or_path pad_to_multiple_of pad_token_type_id "
    "padding padding_side processor_class response_schema response_template "
    "return_token_type_ids sp_model_kwargs spaces_between_special_tokens "
    "special_tokens_map_file stride tokenizer_class tokenizer_file transformers_version "
    "truncation truncation_side truncation_strategy unk_token_id use_default_system_prompt "
    "verbose ";

/// Switches that are reported if they are on.
constexpr std::string_view kSwitches = " do_lower_case split_special_tokens strip_accents ";

bool is_known(const std::string& key, const Json& value) {
  if (value == false && kSwitches.find(fmt::format(" {} ", key)) != std::string_view::npos) return true;
  return kKnown.find(fmt::format(" {} ", key)) != std::string_view::npos || key.ends_with("_token");
}

/// One of the files; an empty object if it is missing. Keys with null count as absent, but for is_null().
class File {
 public:
  File(const fs::path& directory, const std::string& name) : name_((directory / name).string()) {
    if (path_exists(name_)) value_ = parse_json_object<Json>(read_text_file(name_, kMostBytes), name_ + ": ");
    for (auto item = value_.begin(); item != value_.end();) {
      if (item->is_null()) nulls_.push_back(item.key());
      item = item->is_null() ? value_.erase(item) : std::next(item);
    }
  }

  [[nodiscard]] const Json& value() const { return value_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Json* find(std::string_view key) const {
    const auto found = value_.find(key);
    return found == value_.end() ? nullptr : &*found;
  }
  [[nodiscard]] bool is_null(std::string_view key) const {
    return std::ranges::find(nulls_, key) != nulls_.end();
  }
  [[noreturn]] void refuse(std::string_view key, const Json& found, std::string_view expected) const {
    fail({ExitCode::kBadData, "text.tokenizer"}, "{}: {}: found {}, expected {}", name_, printable(key),
         printable(found.dump(-1, ' ', false, Json::error_handler_t::replace), 80), expected);
  }
  void name_unused() const {
    std::vector<std::string> unused;
    for (const auto& [key, value] : value_.items())
      if (!is_known(key, value)) unused.push_back(key);
    if (!unused.empty()) log::warning("{}: keys that are not used: {}", name_, printable(join_some(unused)));
  }

  /// A token: a text, which is a special token, or an object with a content and flags.
  [[nodiscard]] NamedToken token(std::string_view key, const Json& value) const {
    NamedToken named;
    named.file = name_;
    if (value.is_object()) {
      named.token =
          read_added_token(JsonNode::parse(value.dump(), fmt::format("{}: {}", name_, printable(key))));
      return named;
    }
    if (!value.is_string()) refuse(key, value, "a text, or an object with a text as its content");
    named.token.content = value.get<std::string>();
    named.token.special = true;
    named.token.normalized = false;
    return named;
  }

 private:
  std::string name_;
  Json value_ = Json::object();
  std::vector<std::string> nulls_;  ///< keys with null
};

/// Special tokens with the keys that name them, each key once, in the order in which transformers has them.
class SpecialTokens {
 public:
  /// Gives a key its token: a later one takes the place of an earlier one.
  void set(const std::string& key, NamedToken named) {
    named.token.special = true;
    const auto found = std::ranges::find(tokens_, key, &std::pair<std::string, NamedToken>::first);
    if (found != tokens_.end())
      found->second = std::move(named);
    else
      tokens_.emplace_back(key, std::move(named));
  }
  [[nodiscard]] const std::vector<std::pair<std::string, NamedToken>>& tokens() const { return tokens_; }

 private:
  std::vector<std::pair<std::string, NamedToken>> tokens_;
};

/// Tokens that the files name, by transformers' rules on which file counts.
class NamedTokens {
 public:
  NamedTokens(const fs::path& directory, const std::vector<AddedToken>& own)
      : own_(own),
        config_(directory, "tokenizer_config.json"),
        is_legacy_(config_.find("added_tokens_decoder") == nullptr),
        map_(directory, "special_tokens_map.json"),
        ids_(directory, "added_tokens.json") {}

  [[nodiscard]] std::vector<NamedToken> read() {
    config_.name_unused();
    if (is_legacy_) map_.name_unused();
    const std::vector<NamedToken> special = special_tokens(), listed = is_legacy_ ? by_content() : by_id();
    for (const NamedToken& named : listed) {
      NamedToken token = named;
      if (names(special, token.token.content)) token.token.special = true;
      if (std::ranges::none_of(own_, [&](const AddedToken& known) { return is_alike(known, token.token); }))
        named_.push_back(token);
    }
    for (const NamedToken& token : special) add(token);
    for (const NamedToken& token : listed_extra()) add(token);
    return std::move(named_);
  }

  /// Tokens by key: first `bos_token` and the like, then those that only this model has, such as
  /// `image_token`. A key of the map counts in place of the configuration's, with null too.
  [[nodiscard]] SpecialTokens by_key() const {
    SpecialTokens tokens;
    for (const std::string_view key : kSpecial) {
      const bool is_in_map = is_legacy_ && (map_.find(key) != nullptr || map_.is_null(key));
      const File& file = is_in_map ? map_ : config_;
      if (const Json* value = file.find(key)) tokens.set(std::string(key), file.token(key, *value));
    }
    if (is_legacy_) set_others(map_, tokens);
    set_others(config_, tokens);
    for (const char* key : {"model_specific_special_tokens", "extra_special_tokens"})
      for (const File* file : {&config_, &map_}) {
        const Json* value = file == &map_ && !is_legacy_ ? nullptr : file->find(key);
        if (value && value->is_object())
          for (const auto& item : value->items())
            if (!item.value().is_null()) tokens.set(item.key(), file->token(item.key(), item.value()));
      }
    return tokens;
  }

 private:
  static bool is_alike(const AddedToken& known, AddedToken token) {
    token.id = known.id;
    return known == token;
  }
  static bool names(const std::vector<NamedToken>& tokens, const std::string& content) {
    return std::ranges::any_of(tokens,
                               [&](const NamedToken& named) { return named.token.content == content; });
  }
  void add(const NamedToken& named) {
    if (names(named_, named.token.content)) return;
    if (std::ranges::find(own_, named.token.content, &AddedToken::content) != own_.end()) return;
    named_.push_back(named);
  }

  /// Tokens of `added_tokens_decoder`, ascending by id.
  [[nodiscard]] std::vector<NamedToken> by_id() const {
    const char* key = "added_tokens_decoder";
    const Json& list = *config_.find(key);
    if (!list.is_object()) config_.refuse(key, list, "an object with ids as keys");
    std::vector<NamedToken> tokens;
    for (const auto& [id, value] : list.items()) {
      tokens.push_back(config_.token(key, value));
      TokenId& number = tokens.back().id.emplace();
      const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
      if (error != std::errc() || end != id.data() + id.size() || number < 0 || number >= kMostIds)
        config_.refuse(key, id, "a token id as a key");
    }
    std::ranges::stable_sort(tokens, {}, &NamedToken::id);
    return tokens;
  }

  /// Tokens of added_tokens.json, ascending by id, without ids that tokenizer.json gives to a token.
  [[nodiscard]] std::vector<NamedToken> by_content() const {
    std::vector<NamedToken> tokens;
    const std::vector<NamedToken> special = special_tokens(), extra = listed_extra();
    for (const auto& [content, id] : ids_.value().items()) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMostIds))
        ids_.refuse(content, id, "a token id");
      if (std::ranges::find(own_, id.get<TokenId>(), &AddedToken::id) != own_.end()) continue;
      const bool is_special = names(special, content) || names(extra, content);
      NamedToken& named = tokens.emplace_back();
      named.file = ids_.name();
      named.id = id.get<TokenId>();
      named.token.content = content;
      named.token.normalized = !is_special;
      named.token.special = is_special;
    }
    std::ranges::stable_sort(tokens, {}, &NamedToken::id);
    return tokens;
  }

  /// Tokens of `bos_token` and similar keys.
  [[nodiscard]] std::vector<NamedToken> special_tokens() const {
    std::vector<NamedToken> tokens;
    const SpecialTokens special = by_key();
    for (const auto& [key, named] : special.tokens()) tokens.push_back(named);
    return tokens;
  }

  static void set_others(const File& file, SpecialTokens& tokens) {
    for (const auto& [key, value] : file.value().items())
      if (key.ends_with("_token") && std::ranges::find(kSpecial, key) == kSpecial.end() &&
          (value.is_string() || value.is_object()))
        tokens.set(key, file.token(key, value));
  }

  /// Tokens of the list `extra_special_tokens`, formerly `additional_special_tokens`.
  [[nodiscard]] std::vector<NamedToken> listed_extra() const {
    std::vector<NamedToken> tokens;
    const auto append = [&](const File& file, const char* key) {
      const Json* list = file.find(key);
      if (!list || list->is_object()) return;
      if (!list->is_array()) file.refuse(key, *list, "a list of tokens");
      for (const Json& value : *list)
        if (!value.is_null()) tokens.push_back(file.token(key, value));
    };
    append(config_, "extra_special_tokens");
    if (tokens.empty()) append(config_, "additional_special_tokens");
    if (!is_legacy_) return tokens;
    const bool has_any = !tokens.empty();
    append(map_, "extra_special_tokens");
    if (!has_any && tokens.empty()) append(map_, "additional_special_tokens");
    return tokens;
  }

  const std::vector<AddedToken>& own_;
  File config_;
  bool is_legacy_;  ///< whether the other files count
  File map_;
  File ids_;
  std::vector<NamedToken> named_;
};

std::string written(const AddedToken& token) {
  std::string flags;
  for (const auto& [name, is_set] : {std::pair{"special", token.special},
                                     {"normalized", token.normalized},
                                     {"lstrip", token.lstrip},
                                     {"rstrip", token.rstrip},
                                     {"single_word", token.single_word}})
    if (is_set) flags += fmt::format("{}{}", flags.empty() ? "" : ", ", name);
  return fmt::format("'{}' ({})", printable(token.content), flags);
}

}  // namespace

std::vector<NamedToken> read_named_tokens(const fs::path& directory, const std::vector<AddedToken>& own) {
  return NamedTokens(directory, own).read();
}

std::map<std::string, NamedToken> read_special_tokens(const fs::path& directory) {
  const std::vector<AddedToken> none;
  const SpecialTokens special = NamedTokens(directory, none).by_key();
  return {special.tokens().begin(), special.tokens().end()};
}

std::string to_text(const std::vector<NamedToken>& tokens) {
  std::string text;
  for (const NamedToken& named : tokens) text += written(named.token) + "\n";
  return text;
}

void add_named_tokens(std::vector<AddedToken>& added, const std::vector<NamedToken>& named,
                      const std::function<std::optional<TokenId>(const std::string&)>& vocabulary_id,
                      TokenId vocabulary_size) {
  // Files that name a token, by what they state about it.
  std::map<std::string, std::vector<std::string>> told;
  for (const NamedToken& one : named) {
    AddedToken token = one.token;
    if (token.content.empty()) continue;
    const auto known = std::ranges::find(added, token.content, &AddedToken::content);
    const bool is_new = known == added.end();
    const bool was_special = !is_new && known->special;
    if (!is_new) {
      token.id = known->id;
      told[one.file + ": tokens with other flags than in tokenizer.json, which count"].push_back(
          written(token));
      *known = token;
      known->special = token.special || was_special;
    } else {
      TokenId next = vocabulary_size;
      for (const AddedToken& other : added) next = std::max(next, other.id + 1);
      token.id = vocabulary_id(token.content).value_or(next);
      told[one.file + ": tokens that tokenizer.json does not add, with the ids that transformers gives them"]
          .push_back(fmt::format("{} {}", written(token), token.id));
      added.push_back(token);
    }
    if (one.id && one.id != token.id)
      told[one.file + ": ids that do not count, as tokenizer.json has others"].push_back(
          fmt::format("{} of {}, which has {}", *one.id, written(token), token.id));
  }
  for (const auto& [what, tokens] : told) log::warning("{}: {}", what, join_some(tokens));
}

}  // namespace sluice::text
