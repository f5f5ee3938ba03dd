#include "corpus/list_text.hpp"

#include "corpus/json_row.hpp"
#include "corpus/message.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace sluice::corpus {
namespace {

using test::expect_error;

std::string list_of(const std::string& text) {
  const auto list = messages_in_text(text, "prompt");
  return list ? list->dump() : "text";
}

TEST(ListText, is_a_list_of_messages_that_a_text_is_the_json_of) {
  EXPECT_EQ(list_of(R"([{"role": "user", "content": "a"}])"), R"([{"role":"user","content":"a"}])");
  EXPECT_EQ(list_of(" [\n{\"from\":\"human\",\"value\":\"\\\"[\"}\n]\n"),
            R"([{"from":"human","value":"\"["}])");
  EXPECT_EQ(list_of(R"([{"content": null, "role": "user"}, {"role": "tool", "content": "", "x": NaN}])"),
            R"([{"content":null,"role":"user"},{"role":"tool","content":"","x":null}])");
}

TEST(ListText, is_one_of_any_role_at_keys_that_hold_nothing_but_messages) {
  const char* const text = R"([{"role": "wizard", "content": "a"}])";
  EXPECT_EQ(list_of(text), "text");
  EXPECT_TRUE(messages_in_text(text, "messages") && messages_in_text(text, "conversations"));
}

TEST(ListText, other_json_and_words_in_brackets_stay_texts) {
  for (const char* text : {"",
                           "[",
                           "[]",
                           "hello",
                           "[1, 2]",
                           R"(["a", "b"])",
                           R"([{"a": 1}])",
                           R"({"role": "user", "content": "a"})",
                           R"([{"from": "Paris", "to": "Rome"}])",
                           R"([{"role": "engineer", "name": "Ann"}])",
                           R"([{"role": "user", "content": "a"}, 3])",
                           R"([[{"role": "user", "content": "a"}]])",
                           R"([{"role": "user", "content": "a"}] What is wrong with it?)",
                           R"([{"role": "user", "content": "a"}, what comes next?)",
                           R"([{"role": "user"} – and then?)",
                           R"([{"role": "user", "id": 1}, {"role": "system", "id": 2}])",
                           R"([{"role": "admin", "content": "all"}])",
                           R"([{"from": "user", "to": "system"}])",
                           R"([{"from": "Ann", "to": "Bob", "value": 5}])",
                           "[{'role': 'assistant', 'salary': 10}]",
                           R"([{'role': 'user', 'content': 'a'}] is Python)",
                           "[{'from': 'Paris', 'to': 'Rome'}]",
                           "[{'a': 1}, {'role': 'user', 'content': 'a'}]",
                           R"([{"from": "Paris", "to": "Ro)",
                           "[role](user) [{",
                           R"([{role: "user", content: "a"}])",
                           R"("[{\"role\": \"user\", \"content\": \"a\"}]")"})
    EXPECT_EQ(list_of(text), "text") << text;
}

TEST(ListText, of_messages_in_another_spelling_or_cut_short_is_refused) {
  for (const char* text :
       {"[{'role': 'user', 'content': 'a'}]",
        R"([{'content': "it's", 'role': 'user', 'train': True, 'x': None}])",
        "[{'role': 'user', 'content': 'a'}\n {'role': 'assistant', 'content': 'b'}]",
        "[{u'role': u'user', u'content': u'a'}]",
        R"([{'role': 'tool', 'content': 'it\'s [', 'x': array([1.5, -2e-3, nan], dtype=object)}])",
        "[{'from': 'human', 'value': 'a", R"([{"role": "user", "content": "a"},])",
        R"([{"role": "user", "content": "a"}, {"role": "assi)", R"([{"role": "user", "content": "a\)",
        R"([{"role": "user", "train": tru)", R"([{"role": "user", "content": "a"}, ...])",
        "[{\"role\": \"user\", \"content\": \"two\nlines\"}]"}) {
    SCOPED_TRACE(text);
    expect_error(ExitCode::kBadData, {"'prompt'", "JSON"}, [&] { static_cast<void>(list_of(text)); });
  }
  const std::string deep =
      R"([{"role": "user", "content": )" + std::string(100, '[') + std::string(100, ']') + "}]";
  expect_error(ExitCode::kBadData, {"'prompt'"}, [&] { static_cast<void>(list_of(deep)); });
}

}  // namespace
}  // namespace sluice::corpus
