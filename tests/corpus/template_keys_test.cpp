#include "corpus/template_keys.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace sluice::corpus {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> unread(const ChatTemplate& chat_template, const std::string& line) {
  return TemplateKeys(chat_template).unread(*read_row(line, {}).conversation);
}

TEST(TemplateKeys, are_those_that_the_template_names) {
  ChatTemplate plain;
  plain.text = "{{ message.reasoning_content }} {{ message['name'] }} {{ moody }}";
  EXPECT_THAT(
      unread(plain,
             R"({"messages": [{"role": "user", "content": "a", "name": "n", "thinking": "t", "mood": 1}], )"
             R"("tools": [{"name": "f"}]})"),
      ElementsAre("tools", "messages.mood"));
}

TEST(TemplateKeys, are_looked_for_in_the_template_for_tools_where_a_conversation_has_some) {
  ChatTemplate both;
  both.text = "{{ message.name }}";
  both.tools_text = "{{ tools }} {{ message.mood }}";
  const std::string message = R"({"messages": [{"role": "user", "content": "a", "mood": 1}])";
  EXPECT_THAT(unread(both, message + R"(, "tools": [{"name": "f"}]})"), IsEmpty());
  EXPECT_THAT(unread(both, message + "}"), ElementsAre("messages.mood"));
}

}  // namespace
}  // namespace sluice::corpus
