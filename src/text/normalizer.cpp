#include "text/normalizer.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::text {

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = text.find(pattern); at != std::string_view::npos; at = text.find(pattern, begin)) {
    out += text.substr(begin, at - begin);
    out += content;
    begin = at + pattern.size();
  }
  return out += text.substr(begin);
}

std::string literal_pattern(const JsonNode& node) {
  const JsonNode pattern = node.object("pattern");
  if (!pattern.has("String"))
    node.refuse("pattern", "a pattern {\"String\": …}; others are not supported here");
  std::string text = pattern.text("String");
  if (text.empty()) node.refuse("pattern", "a text that is not empty");
  return text;
}

namespace {

constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kNormalForms{
    {{"NFC", NormalForm::kC}, {"NFD", NormalForm::kD}, {"NFKC", NormalForm::kKC}, {"NFKD", NormalForm::kKD}}};

std::string_view without_blanks(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const Character first = character_at(text, 0);
    if (!has(first.code, kSpace)) break;
    text.remove_prefix(first.bytes);
  }
  while (right && !text.empty()) {
    const Character last = character_before(text, text.size());
    if (!has(last.code, kSpace)) break;
    text.remove_suffix(last.bytes);
  }
  return text;
}

}  // namespace

Normalizer::Normalizer(const JsonNode& node) { add(node); }

void Normalizer::add(const JsonNode& node) {
  const std::string type = node.type();
  const auto form = std::ranges::find(kNormalForms, type, &std::pair<std::string_view, NormalForm>::first);
  if (type == "Sequence")
    for (const JsonNode& step : node.items("normalizers")) add(step);
  else if (form != kNormalForms.end())
    steps_.push_back({.kind = Step::Kind::kNormalForm, .form = form->second});
  else if (type == "Lowercase")
    steps_.push_back({.kind = Step::Kind::kLowerCase});
  else if (type == "Strip")
    steps_.push_back({.kind = Step::Kind::kStrip,
                      .left = node.boolean("strip_left", true),
                      .right = node.boolean("strip_right", true)});
  else if (type == "Prepend")
    steps_.push_back({.kind = Step::Kind::kPrepend, .content = node.text("prepend")});
  else if (type == "Replace")
    steps_.push_back(
        {.kind = Step::Kind::kReplace, .pattern = literal_pattern(node), .content = node.text("content")});
  else
    node.refuse("type",
                "one of the supported normalizers: NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, "
                "Sequence");
}

std::string Normalizer::apply(std::string_view text, Ends whole) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (out.empty()) return out;
    switch (step.kind) {
      case Step::Kind::kNormalForm:
        out = normalized(out, step.form);
        break;
      case Step::Kind::kLowerCase:
        out = lower_case(out);
        break;
      case Step::Kind::kStrip:
        out = without_blanks(out, step.left && whole.begins, step.right && whole.ends);
        break;
      case Step::Kind::kPrepend:
        if (whole.begins) out.insert(0, step.content);
        break;
      case Step::Kind::kReplace:
        out = replaced(out, step.pattern, step.content);
        break;
    }
  }
  return out;
}

bool Normalizer::keeps_line_breaks() const {
  return std::ranges::none_of(steps_, [](const Step& step) {
    return step.kind == Step::Kind::kStrip ||
           (step.kind == Step::Kind::kReplace && step.pattern.find('\n') != std::string::npos);
  });
}

}  // namespace sluice::text
