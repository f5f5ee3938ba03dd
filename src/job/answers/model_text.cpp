#include "job/answers/model_text.hpp"

#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"
#include "corpus/model_tokens.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // templates print objects in the order of their keys

bool has_tokenizer(const fs::path& directory) { return text::Tokenizer::find(directory).has_value(); }

/// Directory of a model's tokenizer and template; for a checkpoint, that of the model with which its training
/// began.
fs::path text_directory(const fs::path& model) {
  return !has_tokenizer(model) && is_saved_step(model) ? read_saved_step(model).path("model.path") : model;
}

std::vector<std::int64_t> wide(const std::vector<text::TokenId>& ids) { return {ids.begin(), ids.end()}; }

/// Number of bytes at the end of `text` with which a stop may begin.
std::size_t begun(std::string_view text, std::string_view stop) {
  for (std::size_t count = std::min(text.size(), stop.size() - 1); count > 0; --count)
    if (text.substr(text.size() - count) == stop.substr(0, count)) return count;
  return 0;
}

}  // namespace

std::shared_ptr<const text::Tokenizer> find_tokenizer(const fs::path& model) {
  const fs::path directory = text_directory(model);
  if (!has_tokenizer(directory)) return nullptr;
  return std::make_shared<const text::Tokenizer>(text::Tokenizer::load(directory));
}

void encode_prompts(std::vector<Prompt>& prompts, const text::Tokenizer* tokenizer, const fs::path& model,
                    PromptKind kind) {
  std::optional<ChatEncoder> chat;
  for (Prompt& prompt : prompts) {
    if (!prompt.tokens.empty()) continue;
    if (tokenizer == nullptr)
      fail({ExitCode::kBadData, "text.no_tokenizer"},
           "{}: found no tokenizer.json, which a prompt of text needs; prompts of token ids do without",
           model.string());
    if (kind == PromptKind::kPlain && prompt.conversation)
      fail({ExitCode::kBadData, "corpus.chat_template"},
           "{} is a conversation, which generate.chat = true, or --chat, lays out for the model",
           name_of(prompt));
    if (kind == PromptKind::kPlain) {
      prompt.tokens = wide(tokenizer->encode(prompt.text));
      continue;
    }
    if (!chat) chat.emplace(*tokenizer, model);
    if (!prompt.conversation)
      prompt.conversation =
          corpus::conversation_with(Json::array({{{"role", "user"}, {"content", prompt.text}}}));
    prompt.tokens = chat->encode(*prompt.conversation);
    for (std::string& key : chat->unread(*prompt.conversation)) prompt.unused.push_back(std::move(key));
  }
}

ChatEncoder::ChatEncoder(const text::Tokenizer& tokenizer, const fs::path& model)
    : tokenizer_(tokenizer), template_(corpus::read_chat_template(text_directory(model))) {
  if (template_.text.empty() && template_.tools_text.empty())
    fail({ExitCode::kBadData, "corpus.chat_template"},
         "{}: found no chat template, neither in chat_template.jinja nor in tokenizer_config.json; without "
         "one a model takes plain prompts alone",
         model.string());
  layout_ = corpus::make_chat_layout(template_);
  template_keys_ = corpus::TemplateKeys(template_);
}

std::vector<std::int64_t> ChatEncoder::encode(const corpus::Conversation& conversation) {
  if (!corpus::has_template_for(template_, conversation))
    fail({ExitCode::kBadData, "corpus.chat_template"},
         "{}: the model has a chat template for conversations with tools alone", template_.tools_name);
  // The template itself writes special tokens around a text.
  return wide(tokenizer_.encode(layout_->lay_out_prompt(conversation), text::Frame::kLeaveOut));
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
