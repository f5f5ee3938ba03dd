#include "corpus/conversation.hpp"

#include "corpus/json_row.hpp"
#include "support/expect_error.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::corpus {
namespace {

using test::expect_error;
using testing::ElementsAre;

/// "role: content" of each message.
std::vector<std::string> said(const std::string& line, const RowOptions& options = {}) {
  const RowContent read = read_row(line, options);
  std::vector<std::string> all;
  if (!read.conversation) return {"text: " + read.text};
  for (const auto& message : *read.conversation->messages)
    all.push_back(message["role"].get<std::string>() + ": " + message.value("content", ""));
  return all;
}

TEST(Conversation, is_read_in_every_form_that_people_keep_it_in) {
  EXPECT_THAT(
      said(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"),
      ElementsAre("user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, )"
                   R"({"from": "gpt", "value": "b"}]})"),
              ElementsAre("system: s", "user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"prompt": "a", "completion": "b"})"), ElementsAre("user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"text": "c"})"), ElementsAre("text: c"));
  EXPECT_THAT(said(R"({"body": "d", "messages": 3})", {.field = "body"}), ElementsAre("text: d"));
}

TEST(Conversation, takes_what_stands_beside_its_messages) {
  EXPECT_THAT(said(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], )"
                   R"("system": "s"})"),
              ElementsAre("system: s", "user: a", "assistant: b"));
  EXPECT_THAT(
      said(R"({"messages": [{"role": "user", "content": "a"}], "system": "s", "chosen": {"from": "gpt", )"
           R"("value": "b"}})"),
      ElementsAre("system: s", "user: a", "assistant: b"));
  EXPECT_THAT(
      said(R"({"instruction": "i", "input": "n", "output": "o", "system": "s", "history": [["q", "r"]]})"),
      ElementsAre("system: s", "user: q", "assistant: r", "user: i\nn", "assistant: o"));
  EXPECT_THAT(said(R"({"instruction": "i", "input": "", "output": "o"})"),
              ElementsAre("user: i", "assistant: o"));
  EXPECT_THAT(said(R"({"input": "a", "output": "b"})"), ElementsAre("user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}], )"
                   R"("completion": [{"role": "assistant", "content": "b"}]})"),
              ElementsAre("system: s", "user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"),
              ElementsAre("user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"prompt": "a", "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", )"
                   R"("content": "b"}]})"),
              ElementsAre("user: a", "assistant: b"));
}

TEST(Conversation, takes_the_answer_that_the_options_name) {
  const RowOptions rejected{.answers = Answers::kRejected}, chosen{.answers = Answers::kChosen};
  const std::string row = R"({"prompt": "a", "chosen": "b", "rejected": "c"})";
  EXPECT_THAT(said(row, rejected), ElementsAre("user: a", "assistant: c"));
  EXPECT_THAT(said(row, chosen), ElementsAre("user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"prompt": "a", "completion": "b"})", rejected), ElementsAre("user: a", "assistant: b"))
      << "a row without two answers has its own";
  const std::string repeated =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "prompt": "a", )"
      R"("chosen": "b", "rejected": "c"})";
  EXPECT_THAT(said(repeated), ElementsAre("user: a", "assistant: b"));
  EXPECT_THAT(said(repeated, rejected), ElementsAre("user: a", "assistant: c"));
  expect_error(ExitCode::kBadData, {"no 'rejected'"},
               [&] { static_cast<void>(said(R"({"prompt": "a", "chosen": "b"})", rejected)); });
}

/// "role: content" of each message of both answers of a pair, in brackets where it is not learnt.
std::vector<std::vector<std::string>> pair_of(const std::string& line) {
  const RowContent read = read_row(line, {.answers = Answers::kPair});
  std::vector<std::vector<std::string>> pair;
  for (const std::optional<Conversation>& answer : {read.conversation, read.rejected}) {
    pair.emplace_back();
    for (std::size_t i = 0; i < answer->messages->size(); ++i) {
      const auto& message = (*answer->messages)[i];
      const std::string text = message["role"].get<std::string>() + ": " + message.value("content", "");
      pair.back().push_back(answer->is_trained[i] ? text : "(" + text + ")");
    }
  }
  return pair;
}

TEST(Conversation, is_a_pair_in_every_form_that_people_keep_pairs_in) {
  const auto expected =
      ElementsAre(ElementsAre("(user: a)", "assistant: b"), ElementsAre("(user: a)", "assistant: c"));
  const std::string asked = R"({"role": "user", "content": "a"})";
  const std::string good = R"({"role": "assistant", "content": "b"})",
                    bad = R"({"role": "assistant", "content": "c"})";
  const std::vector<std::string> rows = {
      R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
      R"({"prompt": [)" + asked + R"(], "chosen": [)" + good + R"(], "rejected": [)" + bad + "]}",
      R"({"chosen": [)" + asked + "," + good + R"(], "rejected": [)" + asked + "," + bad + "]}",
      R"({"prompt": "a", "chosen": [)" + asked + "," + good + R"(], "rejected": [)" + asked + "," + bad +
          R"(], "messages": [)" + asked + "," + good + "]}",
      (R"({"conversations": [{"from": "human", "value": "a"}], "chosen": {"from": "gpt", "value": "b"}, )"
       R"("rejected": {"from": "gpt", "value": "c"}})"),
      (R"({"instruction": "a", "input": "", "chosen": "b", "rejected": "c", "output": "d"})")};
  for (const std::string& row : rows) EXPECT_THAT(pair_of(row), expected) << row;
}

TEST(Conversation, of_a_pair_keeps_its_system_its_turns_and_its_tools) {
  EXPECT_THAT(
      pair_of(
          R"({"system": "s", "instruction": "i", "history": [["q", "r"]], "chosen": "b", "rejected": "c"})"),
      ElementsAre(ElementsAre("(system: s)", "(user: q)", "(assistant: r)", "(user: i)", "assistant: b"),
                  ElementsAre("(system: s)", "(user: q)", "(assistant: r)", "(user: i)", "assistant: c")));
  const std::string turns = R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})";
  EXPECT_THAT(pair_of(R"({"chosen": [)" + turns + R"(, {"role": "user", "content": "d"}, )" +
                      R"({"role": "assistant", "content": "e"}], "rejected": [)" + turns + "]}"),
              ElementsAre(ElementsAre("(user: a)", "assistant: b", "user: d", "assistant: e"),
                          ElementsAre("(user: a)", "assistant: b")))
      << "each has an answer, if one conversation begins the other";
  const RowContent read =
      read_row(R"({"prompt": "a", "chosen": "b", "rejected": "c", "tools": [{"name": "f"}], "id": 1})",
               {.answers = Answers::kPair});
  EXPECT_EQ(read.conversation->tools->dump(), read.rejected->tools->dump());
  EXPECT_NE(read.rejected->tools->dump(), "null");
  EXPECT_THAT(read.unused, ElementsAre("id"));
}

TEST(Conversation, that_is_no_pair_says_what_it_lacks) {
  for (const auto& [row, lacks] : {std::pair{R"({"prompt": "a", "chosen": "b"})", "no 'rejected'"},
                                   {R"({"prompt": "a", "chosen": null, "rejected": "c"})", "no 'chosen'"},
                                   {R"({"chosen": "b", "rejected": "c"})", "no prompt"},
                                   {R"({"text": "a"})", "no 'chosen'"}})
    expect_error(ExitCode::kBadData, {lacks}, [line = row] { static_cast<void>(pair_of(line)); });
}

TEST(Conversation, knows_the_tools_of_each_form) {
  const auto tools = [](const std::string& line) { return read_row(line, {}).conversation->tools->dump(); };
  const std::string wrapped = R"([{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(tools(R"({"conversations": [{"from": "gpt", "value": "b"}], "tools": "[{\"name\": \"f\"}]"})"),
            wrapped);
  EXPECT_EQ(tools(R"({"messages": [{"role": "user", "content": "a"}], "functions": [{"name": "f"}]})"),
            wrapped);
  EXPECT_EQ(tools(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}]})"),
            R"([{"name":"f"}])");
  EXPECT_EQ(tools(R"({"messages": [{"role": "user", "content": "a"}], "tools": ""})"), "null");
  const std::string call = R"([{"type":"function","function":{"name":"f","arguments":{"x":null}}}])";
  const auto calls = [](const std::string& line) {
    const RowContent read = read_row(line, {});
    EXPECT_EQ((*read.conversation->messages)[0]["role"], "assistant");
    return (*read.conversation->messages)[0]["tool_calls"].dump();
  };
  EXPECT_EQ(calls(R"({"conversations": [{"from": "function_call", "value": "{\"name\": \"f\", )"
                  R"(\"arguments\": {\"x\": null}}"}]})"),
            call);
  EXPECT_EQ(calls(R"({"messages": [{"role": "assistant", "content": null, "function_call": {"name": "f", )"
                  R"("arguments": {"x": null}}}]})"),
            call);
}

/// The row with the values at these keys as their JSON texts.
std::string with_texts(const std::string& line, const std::vector<std::string>& keys) {
  auto row = nlohmann::ordered_json::parse(line);
  for (const std::string& key : keys)
    if (row.contains(key) && !row[key].is_string()) row[key] = row[key].dump();
  return row.dump();
}

/// All that a row is read as.
std::string read_as(const std::string& line) {
  const RowContent read = read_row(line, {});
  if (!read.conversation) return "text: " + read.text;
  std::string all = read.conversation->messages->dump() + read.conversation->tools->dump();
  for (const bool is_trained : read.conversation->is_trained) all += is_trained ? " learnt" : " asked";
  for (const std::string& key : read.unused) all += " " + key;
  return all;
}

TEST(Conversation, kept_as_json_text_is_the_one_that_its_list_is) {
  const std::string messages =
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": "b"}], )"
      R"("weight": 0}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", )"
      R"("function": {"name": "f", "arguments": "{\"z\": 1, \"a\": NaN}"}}], "x": 1.5}])";
  const std::string question = R"([{"role": "user", "content": "a"}])";
  const std::string answer = R"([{"role": "assistant", "content": "b"}])";
  const std::vector<std::string> rows = {
      R"({"messages": )" + messages + R"(, "tools": [{"name": "f"}], "system": "s"})",
      R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "x": 1})",
      R"({"prompt": )" + question + R"(, "completion": )" + answer + "}",
      R"({"prompt": "a", "completion": )" + answer + "}",
      R"({"prompt": )" + question + R"(, "chosen": )" + answer + R"(, "rejected": "c"})",
      R"({"prompt": "a", "chosen": )" + messages + "}",
      R"({"messages": )" + question + R"(, "chosen": )" + answer + "}",
      R"({"chosen": )" + messages + R"(, "text": "t"})",
      R"({"instruction": "i", "output": )" + answer + R"(, "history": [["q", "r"]]})",
  };
  for (const std::string& row : rows)
    EXPECT_EQ(read_as(with_texts(row, {"messages", "conversations", "prompt", "completion", "chosen",
                                       "output", "history", "tools"})),
              read_as(row));
  EXPECT_EQ(read_as(R"({"input": "[{\"role\": \"user\", \"content\": \"a\"}]", "output": "b"})"),
            read_as(R"({"input": "a", "output": "b"})"));
}

TEST(Conversation, with_calls_or_parts_as_json_text_is_the_one_that_has_them_as_lists) {
  const auto row = [](const std::string& message) { return R"({"messages": [)" + message + "]}"; };
  const std::string function = R"({"name": "f", "arguments": {"x": 1}})";
  const std::string call = R"({"type": "function", "function": )" + function + "}";
  const auto quoted = [](const std::string& json) { return nlohmann::json(json).dump(); };
  const auto calls = [&](const std::string& value) {
    return read_as(row(R"({"role": "assistant", "content": "", "tool_calls": )" + value + "}"));
  };
  EXPECT_EQ(calls(quoted("[" + call + "]")), calls("[" + call + "]"));
  EXPECT_EQ(calls("[" + quoted(call) + "]"), calls("[" + call + "]"));
  EXPECT_EQ(calls(R"([{"type": "function", "function": )" + quoted(function) + "}]"),
            calls("[" + call + "]"));
  EXPECT_EQ(calls(quoted("null")), calls("null"));
  EXPECT_EQ(calls(R"("")"), calls("null"));
  const auto old = [&](const std::string& value) {
    return read_as(row(R"({"role": "assistant", "content": "", "function_call": )" + value + "}"));
  };
  EXPECT_EQ(old(quoted(function)), old(function));
  const auto said = [&](const std::string& value) {
    return read_as(row(R"({"role": "user", "content": )" + value + "}"));
  };
  EXPECT_EQ(said(quoted(R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])")),
            said(R"("ab")"));
  for (const char* text :
       {R"([{"type": "number", "value": 3}])", "[1] and [2]", R"(["a"])", R"([{"text": "a"}])",
        R"([{"role": "user", "content": "a"}])", "[{'type': 'dog', 'text': 'a'}]"})
    EXPECT_THAT(said(quoted(text)), testing::HasSubstr(quoted(text))) << text;
}

TEST(Conversation, in_brackets_that_are_no_list_of_messages_is_a_text) {
  EXPECT_THAT(said(R"({"prompt": "[1, 2]", "completion": "[{\"a\": 1}]"})"),
              ElementsAre("user: [1, 2]", "assistant: [{\"a\": 1}]"));
  EXPECT_THAT(said(R"({"messages": "[{'a': 1}]"})"), ElementsAre("user: [{'a': 1}]"));
  const std::string list = R"([{\"role\": \"user\", \"content\": \"a\"}])";
  EXPECT_THAT(said(R"({"messages": ")" + list + R"("})", {.field = "messages"}),
              ElementsAre(R"(text: [{"role": "user", "content": "a"}])"));
  EXPECT_THAT(said(R"({"text": "[{'role': 'user', 'content': 'a'}]", "prompt": "[{'role': 'user'}]"})"),
              ElementsAre("text: [{'role': 'user', 'content': 'a'}]"));
}

TEST(Conversation, names_the_keys_that_it_does_not_use) {
  const auto unused = [](const std::string& line, const RowOptions& options = {}) {
    return read_row(line, options).unused;
  };
  EXPECT_THAT(
      unused(R"({"id": 3, "messages": [{"role": "user", "content": "a"}], "score": NaN, "text": "t", )"
             R"("tools": []})"),
      ElementsAre("id", "text"));
  EXPECT_THAT(unused(R"({"text": "t", "source": null, "meta": {}})"), ElementsAre("meta"));
  EXPECT_THAT(unused(R"({"body": "d", "messages": 3})", {.field = "body"}), ElementsAre("messages"));
  EXPECT_THAT(unused(R"({"messages": [{"role": "system", "content": "own"}], "system": "other"})"),
              ElementsAre("system"));
  EXPECT_THAT(unused(R"({"prompt": "a", "completion": "b", "label": false})"), ElementsAre("label"));
}

TEST(Conversation, takes_null_for_absent) {
  EXPECT_THAT(said(R"({"messages": null, "prompt": null, "tools": null, "text": "c"})"),
              ElementsAre("text: c"));
  const RowContent line = read_row(
      R"({"messages": [{"role": "user", "content": "a", "from": null, "train": null, "tool_calls": null, )"
      R"("name": NaN}], "system": null})",
      {});
  EXPECT_EQ((*line.conversation->messages)[0].size(), 2U);
}

TEST(Conversation, joins_parts_of_text_and_refuses_others) {
  EXPECT_THAT(
      said(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", )"
           R"("text": "b", "image": null}]}]})"),
      ElementsAre("user: ab"));
  expect_error(ExitCode::kBadData, {"message 1", "image_url"}, [] {
    static_cast<void>(read_row(
        R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "u"}]}]})", {}));
  });
}

TEST(Conversation, is_asked_in_the_same_forms) {
  const auto asked = [](const std::string& text) -> std::string {
    JsonRow row(text);
    const std::optional<Conversation> conversation = read_asked(row);
    return conversation ? conversation->messages->dump() : "none";
  };
  const std::string question = R"([{"role":"system","content":"s"},{"role":"user","content":"a"}])";
  EXPECT_EQ(asked(R"({"conversations": [{"from": "human", "value": "a"}], "system": "s"})"), question);
  EXPECT_EQ(asked(R"({"prompt": "a", "system": "s"})"), question);
  EXPECT_EQ(asked(R"({"instruction": "a", "output": "b", "system": "s"})"), question);
  EXPECT_EQ(asked(R"({"prompt": "a", "system": null})"), "none");
  const std::string text = nlohmann::json(question).dump();
  EXPECT_EQ(asked(R"({"prompt": )" + text + "}"), question);
  EXPECT_EQ(asked(R"({"messages": )" + text + "}"), question);
  EXPECT_EQ(asked(R"({"prompt": "[{\"a\": 1}]"})"), "none");
}

TEST(Conversation, says_which_messages_are_trained_and_keeps_that_from_the_template) {
  const RowContent line = read_row(
      R"({"messages": [{"role": "assistant", "content": "a", "train": false}, {"role": "assistant", )"
      R"("content": "b"}]})",
      {});
  EXPECT_THAT(line.conversation->is_trained, ElementsAre(false, true));
  EXPECT_FALSE((*line.conversation->messages)[0].contains("train"));
  const RowContent marked =
      read_row(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", )"
               R"("content": "b", "weight": 1}, {"role": "assistant", "content": "c", "masked": true}]})",
               {});
  EXPECT_THAT(marked.conversation->is_trained, ElementsAre(false, true, false));
  EXPECT_EQ((*marked.conversation->messages)[2].size(), 2U);
}

TEST(Conversation, leaves_out_tools_and_reasoning_where_asked) {
  const std::string line =
      R"({"messages": [{"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": []})"
      R"(], "tools": [{"name": "f"}]})";
  const RowContent kept = read_row(line, {});
  EXPECT_TRUE((*kept.conversation->messages)[0].contains("reasoning_content"));
  EXPECT_EQ(kept.conversation->tools->size(), 1U);
  const RowContent bare = read_row(line, {.field = "", .keeps_tools = false, .keeps_reasoning = false});
  EXPECT_EQ((*bare.conversation->messages)[0].size(), 2U);
  EXPECT_TRUE(bare.conversation->tools->is_null());
}

TEST(Conversation, that_is_none_says_what_was_found) {
  const auto refused = [](const std::string& line, const std::vector<std::string>& parts) {
    SCOPED_TRACE(line);
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(read_row(line, {})); });
  };
  refused(R"({"messages": [)", {"is not valid JSON", "cut short"});
  refused(R"(["a"])", {"found a JSON array", "object"});
  refused(R"({"body": "a"})", {"no key 'text'", "body"});
  refused(R"({"messages": []})", {"'messages'", "empty list"});
  refused(R"({"messages": [{"role": "narrator", "content": "a"}]})", {"message 1", "narrator"});
  refused(R"({"messages": [{"role": "user"}]})", {"message 1", "neither 'content'"});
  refused(R"({"messages": [{"role": "user", "content": "a", "train": 1}]})", {"message 1", "'train' is 1"});
  refused(R"({"messages": [{"role": "user", "content": "a", "weight": 0.5}]})",
          {"message 1", "'weight' is 0.5"});
  refused(R"({"instruction": "a", "output": "b", "history": ["q"]})", {"'history'", "pairs"});
  refused(R"({"conversations": [{"from": "function_call", "value": "f of 1"}]})",
          {"f of 1", "\"arguments\""});
  refused(R"({"messages": "[{'role': 'user', 'content': 'a'}]"})", {"'messages'", "'role'", "JSON"});
  refused(R"({"prompt": "a", "completion": "[{\"role\": \"assistant\", \"content\": \"b"})",
          {"'completion'", "cut short"});
  refused(R"({"messages": "[{\"role\": \"wizard\", \"content\": \"b\"}]"})", {"message 1", "'wizard'"});
  refused(R"({"messages": [{"role": "user", "content": "[{'type': 'text', 'text': 'a'}]"}]})",
          {"message 1", "'content'", "JSON"});
  refused(R"({"messages": [{"role": "user", "content": "[{\"type\": \"text\", \"text\": \"a"}]})",
          {"message 1", "'content'", "cut short"});
  refused(R"({"messages": [{"role": "assistant", "tool_calls": "[{'function': {'name': 'f'}}]"}]})",
          {"message 1", "'tool_calls'", "JSON"});
  refused(R"({"prompt": "a", "completion": "b", "tools": "[{'name': 'f'}]"})", {"'tools'"});
  refused(R"({"instruction": "a", "output": "b", "history": "[['q', 'r']]"})", {"'history'", "pairs"});
  refused(R"({"messages": null})", {"no key 'text'", "it has: none"});
  refused(R"({"text": NaN})", {"no key 'text'"});
  refused(R"({"conversations": [{"from": "cat", "value": "a"}]})", {"'from' is 'cat'"});
  refused(R"({"a": )" + std::string(100, '[') + std::string(100, ']') + "}", {"deeper than 64"});
}

}  // namespace
}  // namespace sluice::corpus
