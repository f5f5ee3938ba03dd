#include "text/normalizer.hpp"

#include "base/text.hpp"
#include "text/unicode.hpp"

#include <algorithm>

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

Normalizer::Normalizer(const JsonNode& node) { add(node); }

void Normalizer::add(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "Sequence")
    for (const JsonNode& step : node.items("normalizers")) add(step);
  else if (type == "NFC")
    steps_.push_back({Step::Kind::kCompose, "", ""});
  else if (type == "Prepend")
    steps_.push_back({Step::Kind::kPrepend, "", node.text("prepend")});
  else if (type == "Replace")
    steps_.push_back({Step::Kind::kReplace, literal_pattern(node), node.text("content")});
  else
    node.refuse("type", "one of the supported normalizers: NFC, Prepend, Replace, Sequence");
}

std::string Normalizer::apply(std::string_view text, bool begins) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (out.empty()) return out;
    switch (step.kind) {
      case Step::Kind::kCompose:
        out = compose(out);
        break;
      case Step::Kind::kPrepend:
        if (begins) out.insert(0, step.content);
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
    return step.kind == Step::Kind::kReplace && step.pattern.find('\n') != std::string::npos;
  });
}

}  // namespace sluice::text
