#include "job/model_text.hpp"

#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / "tokenizer.json", error);
}

/// The model that a saved step's training began with.
fs::path first_model_of(const fs::path& step) {
  const std::string path = read_saved_step(step).key("model.path");  // as TOML: in quotes
  return path.size() < 2 ? fs::path() : fs::path(path.substr(1, path.size() - 2));
}

/// Bytes at the end of `text` that a stop may begin with.
std::size_t begun(std::string_view text, std::string_view stop) {
  for (std::size_t count = std::min(text.size(), stop.size() - 1); count > 0; --count)
    if (text.substr(text.size() - count) == stop.substr(0, count)) return count;
  return 0;
}

}  // namespace

std::shared_ptr<const text::Tokenizer> find_tokenizer(const fs::path& model) {
  fs::path directory = model;
  if (!has_tokenizer(directory) && is_saved_step(model)) directory = first_model_of(model);
  if (!has_tokenizer(directory)) return nullptr;
  return std::make_shared<const text::Tokenizer>(text::Tokenizer::load(directory));
}

void encode_prompts(std::vector<Prompt>& prompts, const text::Tokenizer* tokenizer, const fs::path& model) {
  for (Prompt& prompt : prompts) {
    if (!prompt.tokens.empty() || prompt.text.empty()) continue;
    if (tokenizer == nullptr)
      fail(ExitCode::kBadData,
           "{}: found no tokenizer.json, which a prompt of text needs; prompts of token ids do without",
           model.string());
    const std::vector<text::TokenId> ids = tokenizer->encode(prompt.text);
    prompt.tokens.assign(ids.begin(), ids.end());
  }
}

std::string AnswerText::certain(const std::string& more) {
  if (has_stopped_) return "";
  waiting_ += more;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, waiting_.find(stop));
  if (end != std::string::npos) {
    has_stopped_ = true;
    return waiting_.substr(0, end);
  }
  std::size_t held = 0;
  for (const std::string& stop : stops_) held = std::max(held, begun(waiting_, stop));
  std::string out = waiting_.substr(0, waiting_.size() - held);
  waiting_.erase(0, out.size());
  return out;
}

std::string AnswerText::add(std::int64_t token) {
  return certain(decoder_.add(static_cast<text::TokenId>(token)));
}

std::string AnswerText::finish() {
  std::string out = certain(decoder_.finish());
  return has_stopped_ ? out : out + std::exchange(waiting_, "");
}

std::string answer_text(const text::Tokenizer& tokenizer, const std::vector<std::string>& stops,
                        std::span<const std::int64_t> tokens) {
  AnswerText text(tokenizer, stops);
  std::string out;
  for (const std::int64_t token : tokens) out += text.add(token);
  return out + text.finish();
}

}  // namespace sluice
