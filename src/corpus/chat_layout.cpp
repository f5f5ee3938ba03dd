#include "corpus/chat_layout.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/render_chat.hpp"
#include "io/child_program.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice::corpus {
namespace {

using Json = nlohmann::ordered_json;  // templates print objects in the order of their keys

/// Templates with which models with ChatML are published.
constexpr std::array<std::string_view, 2> kChatMl = {
    R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|)"
    R"(im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }})"
    R"({% endif %})",
    R"({% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %})"
    R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|)"
    R"(im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }})"
    R"({% endif %})",
};

class ChatMlLayout : public ChatLayout {
 public:
  explicit ChatMlLayout(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] LaidOut lay_out(const Conversation& conversation, AnswerPlaces places) override {
    LaidOut out;
    for (std::size_t i = 0; i < conversation.messages->size(); ++i) {
      const Json& message = (*conversation.messages)[i];
      const auto content = message.find("content");
      if (content == message.end() || !content->is_string())
        fail({ExitCode::kBadData, "corpus.chat_template"},
             "{}: line 1: message {} has no text as its 'content', and ChatML supports nothing else", name_,
             i + 1);
      const auto& role = message["role"].get_ref<const std::string&>();
      out.text += "<|im_start|>" + role + "\n";
      const auto begin = static_cast<std::int64_t>(out.text.size());
      out.text += content->get_ref<const std::string&>() + "<|im_end|>\n";
      if (places != AnswerPlaces::kNone && role == "assistant")
        out.answers.push_back(
            {begin, static_cast<std::int64_t>(out.text.size()), static_cast<std::int64_t>(i)});
    }
    return out;
  }
  [[nodiscard]] std::string lay_out_prompt(const Conversation& conversation) override {
    return lay_out(conversation, AnswerPlaces::kNone).text + "<|im_start|>assistant\n";
  }
  [[nodiscard]] std::string lay_out_turn(const Conversation&) override { return "<|im_start|>user\n"; }

 private:
  std::string name_;
};

class JinjaLayout : public ChatLayout {
 public:
  explicit JinjaLayout(ChatTemplate chat_template) : template_(std::move(chat_template)) {}

  [[nodiscard]] LaidOut lay_out(const Conversation& conversation, AnswerPlaces places) override {
    constexpr std::array<const char*, 3> kWanted{"text", "spans", "spans that can be found"};
    const Json answer = render(conversation, kWanted.at(static_cast<std::size_t>(places)));
    LaidOut out;
    out.text = answer["text"].get<std::string>();
    for (const Json& span : answer["spans"])
      out.answers.push_back(
          {span[0].get<std::int64_t>(), span[1].get<std::int64_t>(), span[2].get<std::int64_t>()});
    return out;
  }
  [[nodiscard]] std::string lay_out_prompt(const Conversation& conversation) override {
    return render(conversation, "prompt")["text"].get<std::string>();
  }
  [[nodiscard]] std::string lay_out_turn(const Conversation& conversation) override {
    return render(conversation, "turn")["text"].get<std::string>();
  }

 private:
  /// Asks the helper process for what render_chat.py says under "wants".
  Json render(const Conversation& conversation, const char* wanted) {
    if (!helper_) start();
    const Json request = {
        {"messages", *conversation.messages}, {"tools", *conversation.tools}, {"wants", wanted}};
    return ask(request.dump());
  }

  void start() {
    helper_.emplace(
        std::vector<std::string>{"/usr/bin/python3", "-I", "-X", "utf8", "-c", std::string(kRenderChat)});
    const Json settings = {{"template", template_.text}, {"tokens", template_.tokens}};
    ask(settings.dump());
  }

  /// Asks the helper process, and returns its answer; throws its errors.
  Json ask(const std::string& request) {
    const Deadline deadline(template_.deadline_seconds);
    const std::optional<std::string> text = helper_->ask(request, deadline);
    if (!text) {
      helper_.reset();  // the next conversation gets a new process
      if (deadline.passed())
        fail(ExitCode::kBadData, "{}: laying out a conversation took more than {} s", template_.name,
             template_.deadline_seconds);
      fail(ExitCode::kTooLittle,
           "the helper process for chat templates exited: it needs /usr/bin/python3 with Jinja "
           "(package python3-jinja2) and up to 4 GiB of memory");
    }
    Json answer = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object())
      fail({ExitCode::kBadData, "corpus.chat_template"}, "{}: the output of the chat template is not text",
           template_.name);
    if (!answer.contains("error")) return answer;
    const auto line = answer["line"].get<std::int64_t>();
    fail({ExitCode::kBadData, "corpus.chat_template"}, "{}{}: {}", template_.name,
         line > 0 ? fmt::format(": line {} of the template", line) : "",
         printable(answer["error"].get<std::string>(), 500));
  }

  ChatTemplate template_;
  std::optional<ChildProgram> helper_;
};

bool has_tools(const Conversation& conversation) { return !conversation.tools->is_null(); }

/// Layout by one template for conversations with tools, and another for those without.
class LayoutByTools : public ChatLayout {
 public:
  LayoutByTools(std::unique_ptr<ChatLayout> plain, std::unique_ptr<ChatLayout> with_tools)
      : plain_(std::move(plain)), with_tools_(std::move(with_tools)) {}

  [[nodiscard]] LaidOut lay_out(const Conversation& conversation, AnswerPlaces places) override {
    return of(conversation).lay_out(conversation, places);
  }
  [[nodiscard]] std::string lay_out_prompt(const Conversation& conversation) override {
    return of(conversation).lay_out_prompt(conversation);
  }
  [[nodiscard]] std::string lay_out_turn(const Conversation& conversation) override {
    return of(conversation).lay_out_turn(conversation);
  }

 private:
  ChatLayout& of(const Conversation& conversation) {
    return has_tools(conversation) ? *with_tools_ : *plain_;
  }

  std::unique_ptr<ChatLayout> plain_;
  std::unique_ptr<ChatLayout> with_tools_;
};

}  // namespace

bool has_template_for(const ChatTemplate& chat_template, const Conversation& conversation) {
  return !chat_template.text.empty() || (has_tools(conversation) && !chat_template.tools_text.empty());
}

std::unique_ptr<ChatLayout> make_chat_layout(const ChatTemplate& chat_template) {
  if (!chat_template.tools_text.empty()) {
    ChatTemplate plain = chat_template, with_tools = chat_template;
    with_tools.name = std::exchange(plain.tools_name, "");
    with_tools.text = std::exchange(plain.tools_text, "");
    with_tools.tools_text = "";
    return std::make_unique<LayoutByTools>(make_chat_layout(plain), make_chat_layout(with_tools));
  }
  for (const std::string_view known : kChatMl)
    if (chat_template.text == known) return std::make_unique<ChatMlLayout>(chat_template.name);
  return make_jinja_layout(chat_template);
}

std::unique_ptr<ChatLayout> make_jinja_layout(const ChatTemplate& chat_template) {
  return std::make_unique<JinjaLayout>(chat_template);
}

}  // namespace sluice::corpus
