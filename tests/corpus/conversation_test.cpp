#include "corpus/conversation.hpp"

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
std::vector<std::string> said(const std::string& line, const LineOptions& options = {}) {
  const Line read = read_line(line, options);
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
  EXPECT_THAT(
      said(
          R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
      ElementsAre("system: s", "user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"prompt": "a", "completion": "b"})"), ElementsAre("user: a", "assistant: b"));
  EXPECT_THAT(said(R"({"text": "c"})"), ElementsAre("text: c"));
  EXPECT_THAT(said(R"({"body": "d", "messages": 3})", {.field = "body"}), ElementsAre("text: d"));
}

TEST(Conversation, says_which_messages_are_trained_and_keeps_that_from_the_template) {
  const Line line = read_line(
      R"({"messages": [{"role": "assistant", "content": "a", "train": false}, {"role": "assistant", "content": "b"}]})",
      {});
  EXPECT_THAT(line.conversation->is_trained, ElementsAre(false, true));
  EXPECT_FALSE((*line.conversation->messages)[0].contains("train"));
}

TEST(Conversation, leaves_out_tools_and_reasoning_where_asked) {
  const std::string line =
      R"({"messages": [{"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": []}], "tools": [{"name": "f"}]})";
  const Line kept = read_line(line, {});
  EXPECT_TRUE((*kept.conversation->messages)[0].contains("reasoning_content"));
  EXPECT_EQ(kept.conversation->tools->size(), 1U);
  const Line bare = read_line(line, {.field = "", .keeps_tools = false, .keeps_reasoning = false});
  EXPECT_EQ((*bare.conversation->messages)[0].size(), 2U);
  EXPECT_TRUE(bare.conversation->tools->is_null());
}

TEST(Conversation, that_is_none_says_what_was_found) {
  const auto refused = [](const std::string& line, const std::vector<std::string>& parts) {
    SCOPED_TRACE(line);
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(read_line(line, {})); });
  };
  refused(R"({"messages": [)", {"is not valid JSON", "cut short"});
  refused(R"(["a"])", {"found a JSON array", "object"});
  refused(R"({"body": "a"})", {"no key 'text'", "body"});
  refused(R"({"messages": []})", {"'messages'", "empty list"});
  refused(R"({"messages": [{"role": "narrator", "content": "a"}]})", {"message 1", "narrator"});
  refused(R"({"messages": [{"role": "user"}]})", {"message 1", "neither 'content'"});
  refused(R"({"messages": [{"role": "user", "content": "a", "train": 1}]})", {"message 1", "'train' is 1"});
  refused(R"({"conversations": [{"from": "cat", "value": "a"}]})", {"'from' is 'cat'"});
  refused(R"({"a": )" + std::string(100, '[') + std::string(100, ']') + "}", {"deeper than 64"});
}

}  // namespace
}  // namespace sluice::corpus
