#include "corpus/tokenize.hpp"

#include "io/hdf5.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryDirectory;

class Tokenize : public testing::Test {
 protected:
  Tokenize() {
    fs::copy_file(fs::path(SLUICE_FIXTURES) / "tokenizers/qwen3/tokenizer.json",
                  directory_ / "tokenizer.json");
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

}  // namespace
}  // namespace sluice::corpus
