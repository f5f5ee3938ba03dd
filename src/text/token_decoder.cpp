#include "text/token_decoder.hpp"

#include "base/text.hpp"
#include "text/bpe.hpp"
#include "text/normalizer.hpp"
#include "text/unicode/unicode.hpp"

#include <charconv>
#include <optional>

namespace sluice::text {
namespace {

/// Byte that "<0xNN>" stands for.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

/// Steps of a Sequence, in their required order.
enum class Stage { kReplace, kByteFallback, kFuse, kStrip };

void read_step(const JsonNode& step, DecoderRules& rules, Stage& reached) {
  const std::string type = step.type();
  const auto reach = [&](Stage stage) {
    if (stage < reached || (stage == reached && stage != Stage::kReplace))
      step.refuse("type", "the order Replace, ByteFallback, Fuse, Strip, which alone is supported");
    reached = stage;
  };
  if (type == "Replace") {
    reach(Stage::kReplace);
    rules.replaced.emplace_back(literal_pattern(step), step.text("content"));
  } else if (type == "ByteFallback") {
    reach(Stage::kByteFallback);
    rules.byte_fallback = true;
  } else if (type == "Fuse") {
    reach(Stage::kFuse);
  } else if (type == "Strip") {
    if (reached != Stage::kFuse) step.refuse("type", "Strip behind Fuse; elsewhere it is not supported");
    reach(Stage::kStrip);
    rules.stripped = step.text("content");
    rules.strip_count = step.integer("start", 0, 1 << 20);
    if (step.integer("stop", 0, 1 << 20) != 0) step.refuse("stop", "0; others are not supported");
    if (rules.stripped.empty()) step.refuse("content", "a character");
  } else {
    step.refuse("type", "one of the supported decoders: Replace, ByteFallback, Fuse, Strip");
  }
}

}  // namespace

DecoderRules DecoderRules::read(const JsonNode& node) {
  DecoderRules rules;
  const std::string type = node.type();
  if (type == "ByteLevel") {
    rules.byte_level = true;
  } else if (type == "Metaspace") {
    const std::string replacement = node.text("replacement");
    if (replacement.empty()) node.refuse("replacement", "a character");
    const std::string scheme =
        node.text("prepend_scheme", node.boolean("add_prefix_space", true) ? "always" : "never");
    rules.replaced.emplace_back(replacement, " ");
    if (scheme != "never") rules.dropped_from_first = replacement;
  } else if (type == "Sequence") {
    Stage reached = Stage::kReplace;
    for (const JsonNode& step : node.items("decoders")) read_step(step, rules, reached);
  } else {
    node.refuse("type", "one of the supported decoders: ByteLevel, Metaspace, Sequence");
  }
  return rules;
}

std::string TokenTextJoiner::add(std::string_view token) {
  if (rules_->byte_level) {
    const std::optional<std::string> bytes = bytes_of_byte_level(token);
    return add_bytes(bytes ? *bytes : token);
  }
  const std::string text = text_of(token);
  is_first_ = false;
  if (const std::optional<char> byte = rules_->byte_fallback ? byte_of(text) : std::nullopt) {
    waiting_ += *byte;
    return "";
  }
  return stripped(take_byte_run() + text);
}

std::string TokenTextJoiner::finish() {
  if (!rules_->byte_level) return stripped(take_byte_run());
  std::string out;
  append_repaired(out, std::exchange(waiting_, {}));
  return out;
}

std::string TokenTextJoiner::text_of(std::string_view token) {
  std::string text(token);
  if (is_first_ && !rules_->dropped_from_first.empty()) text = replaced(text, rules_->dropped_from_first, "");
  for (const auto& [pattern, content] : rules_->replaced) text = replaced(text, pattern, content);
  return text;
}

std::string TokenTextJoiner::add_bytes(std::string_view bytes) {
  waiting_ += bytes;
  const std::size_t whole = waiting_.size() - unfinished_bytes(waiting_);
  std::string out;
  append_repaired(out, std::string_view(waiting_).substr(0, whole));
  waiting_.erase(0, whole);
  return out;
}

/// Text of the waiting bytes; U+FFFD for each if together they are not UTF-8.
std::string TokenTextJoiner::take_byte_run() {
  std::string run = std::exchange(waiting_, {});
  if (valid_utf8_prefix(run) == run.size()) return run;
  std::string out;
  for (std::size_t i = 0; i < run.size(); ++i) out += kReplacement;
  return out;
}

std::string TokenTextJoiner::stripped(std::string text) {
  while (strips_left_ > 0 && !text.empty()) {
    if (!text.starts_with(rules_->stripped)) {
      strips_left_ = 0;
      break;
    }
    text.erase(0, rules_->stripped.size());
    --strips_left_;
  }
  return text;
}

}  // namespace sluice::text
