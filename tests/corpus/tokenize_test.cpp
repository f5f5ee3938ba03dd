#include "corpus/tokenize.hpp"

#include "corpus/chat_ml.hpp"
#include "io/hdf5.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryDirectory;

class Tokenize : public testing::Test {
 protected:
  Tokenize() {
    fs::copy_file(fixture_folder() / "tokenizers/qwen3/tokenizer.json", directory_ / "tokenizer.json");
    static_cast<void>(directory_.write("config.json", R"({"vocab_size": 4096})"));
    static_cast<void>(directory_.write("tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})"));
    for (int i = 0; i < 20'000; ++i) lines_ += R"({"text": "whale )" + std::to_string(i) + "\"}\n";
    options_.model = directory_.path();
    options_.sources = {directory_.write("a.jsonl", lines_)};
  }
  TokenizeReport run(const char* name, int threads = 2) {
    options_.output = directory_ / name;
    options_.threads = threads;
    return tokenize(options_);
  }
  std::string bytes(const char* name) {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  TemporaryDirectory directory_;
  std::string lines_;
  TokenizeOptions options_;
};

TEST_F(Tokenize, writes_the_same_file_by_any_number_of_threads) {
  const TokenizeReport report = run("one.h5", 1);
  EXPECT_EQ(report.documents, 20'000);
  EXPECT_EQ(hdf5::File::open(directory_ / "one.h5").dataset("/tokens").shape().front(), report.tokens);
  static_cast<void>(run("four.h5", 4));
  EXPECT_EQ(bytes("one.h5"), bytes("four.h5"));
}

TEST_F(Tokenize, that_is_stopped_leaves_nothing_and_begun_again_writes_the_same_file) {
  static_cast<void>(run("whole.h5"));
  int asked = 0;
  options_.stops = [&] { return ++asked == 1; };
  EXPECT_TRUE(run("again.h5").is_stopped);
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_.path()))
    EXPECT_EQ(entry.path().string().find("again"), std::string::npos) << entry.path();
  EXPECT_FALSE(run("again.h5").is_stopped);
  EXPECT_EQ(bytes("again.h5"), bytes("whole.h5"));
}

TEST_F(Tokenize, holds_out_a_share_and_loses_no_document) {
  options_.holdout_share = 0.25;
  const TokenizeReport report = run("out.h5");
  EXPECT_EQ(report.documents + report.holdout_documents, 20'000);
  EXPECT_NEAR(static_cast<double>(report.holdout_documents), 5'000, 300);
  EXPECT_TRUE(fs::exists(directory_ / "out.holdout.h5"));
}

TEST_F(Tokenize, holds_out_the_end_of_each_text_that_is_one_document) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(1000 + i) + " of a whale\n";
  options_.sources = {directory_.write("a.txt", text), directory_.write("b.txt", text + "<|endoftext|>")};
  options_.holdout_share = 0.1;
  const TokenizeReport report = run("out.h5");
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.holdout_documents, 2);
  ASSERT_EQ(report.cuts.size(), 2U);
  EXPECT_EQ(text.substr(static_cast<std::size_t>(report.cuts[0]), 9), "line 1900");
  EXPECT_NEAR(static_cast<double>(report.holdout_tokens),
              0.1 * static_cast<double>(report.tokens + report.holdout_tokens), 20);
  EXPECT_EQ(report.targets, report.tokens - 2);
  EXPECT_EQ(report.holdout_targets, report.holdout_tokens - 2);
  options_.holdout_share = 0;
  EXPECT_EQ(run("whole.h5").tokens, report.tokens + report.holdout_tokens - 2)
      << "each part has an end token of its own";
}

TEST_F(Tokenize, chooses_among_documents_where_a_text_has_several_or_there_are_many_texts) {
  std::string many;
  for (int i = 0; i < 400; ++i) many += "a whale<|endoftext|>";
  options_.sources = {directory_.write("a.txt", many)};
  options_.holdout_share = 0.25;
  const TokenizeReport parted = run("parted.h5");
  EXPECT_THAT(parted.cuts, testing::Each(0));
  EXPECT_EQ(parted.documents + parted.holdout_documents, 400);
  options_.sources = {directory_.write("c.jsonl", "{\"text\": \"a whale\"}\n"),
                      directory_.write("d.txt", "a\nb\n")};
  EXPECT_THAT(run("mixed.h5").cuts, testing::ElementsAre(0, 2)) << "the text is cut, and the line drawn";
  options_.sources.assign(100, directory_.write("b.txt", "a white whale\nand a ship\n"));
  const TokenizeReport texts = run("texts.h5");
  EXPECT_THAT(texts.cuts, testing::Each(0));
  EXPECT_EQ(texts.documents + texts.holdout_documents, 100);
}

TEST_F(Tokenize, counts_the_tokens_that_a_job_can_learn) {
  options_.sources = {directory_.write("a.jsonl", "{\"text\": \"whale\"}\n{\"text\": \"whale\"}\n")};
  options_.adds_end_token = false;
  const TokenizeReport report = run("one.h5");
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.targets, report.tokens - 2);
}

TEST_F(Tokenize, names_file_and_line_of_a_token_that_the_model_does_not_know) {
  const auto expect_refused = [&](const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(run("out.h5")); });
    EXPECT_FALSE(fs::exists(directory_ / "out.h5"));
  };
  static_cast<void>(directory_.write("config.json", R"({"vocab_size": 2001})"));  // <|im_start|> is 2001
  options_.sources.push_back(
      directory_.write("b.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"<|im_start|>\"}\n"));
  expect_refused({"b.jsonl:3", "'<|im_start|>'", "2001", "2000"});
  std::string text;  // a text of several pieces
  for (int i = 1; i < 100'000; ++i) text += "a line about whales\n";
  options_.sources = {directory_.write("b.txt", text + "one with <|im_start|> in it\n")};
  expect_refused({"b.txt:100000", "'<|im_start|>'"});
  options_.documents = DocumentEnds::kBlank;
  options_.sources = {directory_.write("c.txt", "a\nb\n\n\na\nb <|im_start|>\n")};
  expect_refused({"c.txt:6", "'<|im_start|>'"});
  static_cast<void>(directory_.write("config.json", R"({"vocab_size": 2000})"));  // <|endoftext|> is 2000
  options_.sources = {directory_.write("d.txt", "a\n")};
  expect_refused({"every text gets", "'<|endoftext|>'"});
}

TEST_F(Tokenize, lists_bad_lines_or_leaves_them_out) {
  static_cast<void>(directory_.write("a.jsonl", "{\"text\": \"a\"}\n{\n{\"text\": \"b\"}\n"));
  expect_error(ExitCode::kBadData, {"1 bad line", "a.jsonl:2: is not valid JSON"},
               [&] { static_cast<void>(run("out.h5")); });
  EXPECT_FALSE(fs::exists(directory_ / "out.h5"));
  options_.bad_lines = BadLines::kSkip;
  const TokenizeReport report = run("out.h5");
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.bad_line_count, 1);
}

const std::string kChat =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";

TEST_F(Tokenize, leaves_out_an_unreadable_first_line_and_no_other) {
  static_cast<void>(directory_.write("chat_template.jinja", test::kChatMl));
  static_cast<void>(directory_.write(
      "a.jsonl", "{\"messages\": [{\"role\": \"user\", \"con\n" + kChat + "\n" + kChat + "\n"));
  options_.bad_lines = BadLines::kSkip;
  const TokenizeReport report = run("out.h5");
  EXPECT_EQ(report.documents, 2);
  EXPECT_THAT(report.bad_lines, testing::ElementsAre(testing::HasSubstr("a.jsonl:1: ")));
  EXPECT_TRUE(report.has_mask);
}

TEST_F(Tokenize, begins_a_mask_with_the_first_conversation_wherever_it_is) {
  static_cast<void>(directory_.write("chat_template.jinja", test::kChatMl));
  options_.sources = {directory_.write("a.jsonl", lines_), directory_.write("b.json", "[" + kChat + "]")};
  options_.holdout_share = 0.1;
  const TokenizeReport report = run("out.h5");
  EXPECT_TRUE(report.has_mask);
  for (const char* name : {"out.h5", "out.holdout.h5"}) {
    const hdf5::File file = hdf5::File::open(directory_ / name);
    EXPECT_EQ(file.dataset("/loss_mask").shape(), file.dataset("/tokens").shape()) << name;
  }
  const std::int64_t masked = report.tokens + report.holdout_tokens - report.targets -
                              report.holdout_targets - report.documents - report.holdout_documents;
  EXPECT_TRUE(masked > 0 && masked < 20) << masked << ": what the user says does not count, and all texts do";
}

TEST_F(Tokenize, names_keys_that_were_not_used_in_a_line_a_file) {
  static_cast<void>(directory_.write("chat_template.jinja", test::kChatMl));
  options_.sources = {
      directory_.write("a.jsonl", R"({"text": "a", "id": 1, "score": NaN})"
                                  "\n"
                                  R"({"text": "b", "id": 2, "url": "u"})"),
      directory_.write(
          "b.jsonl",
          R"({"messages": [{"role": "user", "content": "a", "mood": 1}], "tools": [{"name": "f"}]})"),
      directory_.write("c.jsonl", R"({"text": "c"})")};
  const TokenizeReport report = run("out.h5");
  const std::vector<std::string> lines = unused_key_lines(options_, report);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], testing::EndsWith("a.jsonl: not used: 'id' (2 rows), 'url' (1 row)"));
  EXPECT_THAT(lines[1], testing::EndsWith("b.jsonl: not used: 'tools' (1 row), 'messages.mood' (1 row)"));
}

TEST_F(Tokenize, reads_a_pipe_and_ends_while_it_waits_for_one_that_nobody_writes_to) {
  const fs::path fifo = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  static_cast<void>(run("file.h5"));
  options_.sources = {fifo};
  std::thread writer([&] { std::ofstream(fifo) << lines_; });
  EXPECT_EQ(run("piped.h5").documents, 20'000);
  writer.join();
  const auto tokens = [&](const char* name) {
    return hdf5::File::open(directory_ / name).dataset("/tokens").read<std::int64_t>();
  };
  EXPECT_EQ(tokens("piped.h5"), tokens("file.h5"));
  options_.stops = [] { return true; };
  EXPECT_TRUE(run("stopped.h5").is_stopped);
  EXPECT_FALSE(fs::exists(directory_ / "stopped.h5"));
}

TEST_F(Tokenize, that_fails_does_not_wait_for_more_of_a_pipe) {
  const fs::path fifo = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::string bad;
  for (int i = 0; i < 30; ++i) bad += "{\n";
  options_.sources = {directory_.write("bad.jsonl", bad), fifo};
  expect_error(ExitCode::kBadData, {"bad.jsonl:1"}, [&] { static_cast<void>(run("out.h5")); });
}

}  // namespace
}  // namespace sluice::corpus
