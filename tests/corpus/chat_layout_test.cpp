#include "corpus/chat_layout.hpp"

#include "corpus/chat_ml.hpp"
#include "support/expect_error.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::corpus {
namespace {

using test::expect_error;
using testing::ElementsAre;

const std::string kMarked =
    R"({% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}{{ m.content }})"
    R"({% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %})"
    R"([assistant]{% endif %})";

Conversation two_turns() {
  return *read_row(
              R"({"messages": [{"role": "user", "content": "ä?"}, {"role": "assistant", "content": "b!"}, )"
              R"({"role": "user", "content": "c"}]})",
              {})
              .conversation;
}

ChatTemplate named(const std::string& text) {
  return {.name = "chat_template.jinja", .text = text, .tokens = {}};
}

std::vector<std::string> answers(const LaidOut& out) {
  std::vector<std::string> all;
  for (const AnswerSpan& span : out.answers)
    all.push_back(out.text.substr(static_cast<std::size_t>(span.begin),
                                  static_cast<std::size_t>(span.end - span.begin)));
  return all;
}

TEST(ChatLayout, a_template_says_what_is_the_assistants) {
  const auto layout = make_chat_layout(named(kMarked));
  const LaidOut out = layout->lay_out(two_turns(), AnswerPlaces::kFound);
  EXPECT_EQ(out.text, "[user]ä?[assistant]b![user]c");
  EXPECT_THAT(answers(out), ElementsAre("b!"));
  EXPECT_EQ(out.answers.front().message, 1);
  EXPECT_EQ(layout->lay_out_prompt(two_turns()), "[user]ä?[assistant]b![user]c[assistant]");
}

TEST(ChatLayout, conversations_with_tools_have_the_template_for_them) {
  ChatTemplate both = named(test::kChatMl);
  both.tools_name = "tool_use.jinja";
  both.tools_text = "{{ tools|length }} of {{ messages|length }}";
  const auto layout = make_chat_layout(both);
  EXPECT_THAT(layout->lay_out(two_turns(), AnswerPlaces::kNone).text,
              testing::StartsWith("<|im_start|>user"));
  Conversation with_tools = two_turns();
  with_tools.tools = std::make_shared<const nlohmann::ordered_json>(nlohmann::ordered_json::array({1, 2}));
  EXPECT_EQ(layout->lay_out(with_tools, AnswerPlaces::kNone).text, "2 of 3");
  EXPECT_TRUE(has_template_for(both, with_tools));
  both.text = "";
  EXPECT_FALSE(has_template_for(both, two_turns()));
}

TEST(ChatLayout, chatml_without_python_is_what_jinja_makes_of_it) {
  const auto native = make_chat_layout(named(test::kChatMl)), jinja = make_jinja_layout(named(test::kChatMl));
  const LaidOut out = native->lay_out(two_turns(), AnswerPlaces::kFound);
  EXPECT_EQ(out.text, jinja->lay_out(two_turns(), AnswerPlaces::kNone).text);
  EXPECT_EQ(native->lay_out_prompt(two_turns()), jinja->lay_out_prompt(two_turns()));
  EXPECT_THAT(answers(out), ElementsAre("b!<|im_end|>\n"));
}

std::vector<std::string> answers_by(const std::string& chat_template, const std::string& line) {
  return answers(make_jinja_layout(named(chat_template))
                     ->lay_out(*read_row(line, {}).conversation, AnswerPlaces::kFound));
}

const std::string kTwoAnswers =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
    R"({"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";

TEST(ChatLayout, an_answer_is_told_apart_where_a_template_changes_what_came_earlier) {
  // Only the last user has a mark, so that no part of the conversation begins as the whole does.
  const std::string text =
      R"({% for m in messages %}{% if m.role == 'user' %}{{ '!' if loop.index > messages|length - 2 }})"
      R"([{{ m.content }}]{% else %}{{ m.content }}</s>{% endif %}{% endfor %})";
  EXPECT_THAT(answers_by(text, kTwoAnswers), ElementsAre("b</s>", "d</s>"));
}

TEST(ChatLayout, an_answer_ends_where_the_template_ends_it_and_not_where_it_ends_the_conversation) {
  const std::string text = R"({% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %})"
                           R"({% if add_generation_prompt %}<assistant>{% else %}</s>{% endif %})";
  EXPECT_THAT(answers_by(text, kTwoAnswers), ElementsAre("b<end>", "d<end></s>"));
}

TEST(ChatLayout, an_answer_begins_behind_as_much_of_the_prompt_for_it_as_the_template_writes) {
  const std::string text =
      R"({% for m in messages %}<{{ m.role }}>{{ '<think></think>' if loop.last and m.role != 'user' }})"
      R"({{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant><think>{% endif %})";
  EXPECT_THAT(answers_by(text, kTwoAnswers), ElementsAre("b", "</think>d"));
}

TEST(ChatLayout, an_answer_that_a_template_does_not_lay_out_is_refused_with_the_way_out) {
  const std::string text =
      R"({% for m in messages %}[{{ m.role }}]{{ m.content if loop.last or m.role == 'user' }}{% endfor %})"
      R"({% if add_generation_prompt %}[assistant]{% endif %})";
  expect_error(ExitCode::kBadData, {"chat_template.jinja", "message 2", "generation", "--template"},
               [&] { static_cast<void>(answers_by(text, kTwoAnswers)); });
}

/// What a template that prints each call by `printed` makes of calls with these arguments, as JSON.
std::vector<std::string> calls_by(const std::string& printed, const std::vector<std::string>& arguments) {
  const auto layout =
      make_jinja_layout(named("{% for m in messages if m.tool_calls %}{% for c in m.tool_calls %}" + printed +
                              "{% endfor %}{% endfor %}"));
  std::vector<std::string> all;
  for (const std::string& given : arguments)
    all.push_back(layout->lay_out_prompt(
        *read_row(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", )"
                  R"("tool_calls": [{"function": {"name": "f", "arguments": )" +
                      given + R"(}}]}, {"role": "tool", "content": "b"}]})",
                  {})
             .conversation));
  return all;
}

TEST(ChatLayout, arguments_of_calls_have_the_form_that_the_template_lays_out) {
  const std::vector<std::string> both = {R"({"z": "\u00e9", "a": [1, null]})",
                                         R"("{\"z\": \"\u00e9\", \"a\": [1, null]}")"};
  const std::string json = R"({"z": "é", "a": [1, null]})", items = "z=é;a=[1, None];";
  const auto expect = [&](const std::string& printed, const std::string& out) {
    EXPECT_THAT(calls_by(printed, both), ElementsAre(out, out)) << printed;
  };
  expect("{{ c.function.arguments | tojson }}", json);
  expect("{% for k, v in c.function.arguments | items %}{{ k }}={{ v }};{% endfor %}", items);
  const std::string arguments = "{% set a = c.function.arguments %}";
  expect(arguments + "{% for k in a %}{{ k }}={{ a[k] }};{% endfor %}", items);
  expect("{{ '!' + c.function.arguments }}", "!" + json);
  expect(arguments + "{{ a if a is string else a | tojson }}", json);
  // Templates may refuse a call without its result behind it, or without a system message.
  expect("{{ raise_exception('') if messages[-1].role != 'tool' }}{{ c.function.arguments | tojson }}", json);
}

TEST(ChatLayout, arguments_of_calls_stay_where_both_forms_are_right_or_they_are_no_object) {
  EXPECT_THAT(calls_by("{{ c.function.arguments is string }}", {R"("{}")", "{}"}),
              ElementsAre("True", "False"));
  EXPECT_THAT(calls_by("{{ c.function.arguments }}", {R"("{\"a\":1}")", R"({"a": 1})"}),
              ElementsAre(R"({"a":1})", "{'a': 1}"))
      << "as transformers prints them";
  const std::vector<std::string> texts = {R"("f of 1")", R"("[1]")", R"("{\"a\": ")", R"("")"};
  EXPECT_EQ(calls_by("{{ c.function.arguments | tojson }}", texts), texts);
  EXPECT_THAT(calls_by("{{ c.function.arguments + '!' }}", {R"("{ \"a\":1 }")"}),
              ElementsAre(R"({ "a":1 }!)"));
}

TEST(ChatLayout, a_template_that_refuses_or_is_none_says_so_with_its_name) {
  const auto layout = make_chat_layout(named("a\n{{ raise_exception('no users here') }}"));
  expect_error(ExitCode::kBadData, {"chat_template.jinja", "no users here"},
               [&] { static_cast<void>(layout->lay_out(two_turns(), AnswerPlaces::kNone)); });
  expect_error(ExitCode::kBadData, {"chat_template.jinja"}, [] {
    static_cast<void>(make_chat_layout(named("{% for %}"))->lay_out(two_turns(), AnswerPlaces::kNone));
  });
}

}  // namespace
}  // namespace sluice::corpus
