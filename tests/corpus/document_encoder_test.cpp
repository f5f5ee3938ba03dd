#include "corpus/document_encoder.hpp"

#include "corpus/chat_ml.hpp"
#include "corpus/fixture_tokenizer.hpp"

#include <gmock/gmock.h>

#include <string>

namespace sluice::corpus {
namespace {

using testing::HasSubstr;

const std::string kChat =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
    R"({"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";

/// What counts of a line, as text.
std::string counted(Loss loss, const std::string& line = kChat) {
  EncodingOptions options{.row = {}, .loss = loss, .chat_template = {}};
  options.chat_template.text = test::kChatMl;
  DocumentEncoder encoder(test::fixture_tokenizer(), options);
  const EncodedDocumentPiece piece = encoder.encode({.bytes = line, .is_json = true});
  EXPECT_EQ(piece.fault, "");
  EXPECT_TRUE(piece.is_conversation);
  EXPECT_EQ(piece.mask.size(), piece.ids.size());
  std::vector<text::TokenId> ids;
  for (std::size_t i = 0; i < piece.ids.size(); ++i)
    if (piece.mask[i] == 1) ids.push_back(piece.ids[i]);
  return test::fixture_tokenizer().decode(ids, text::Specials::kKeep);
}

TEST(DocumentEncoder, masks_what_is_not_to_be_learnt) {
  EXPECT_EQ(counted(Loss::kAssistant), "b<|im_end|>\nd<|im_end|>\n");
  EXPECT_EQ(counted(Loss::kLast), "d<|im_end|>\n");
  EXPECT_THAT(counted(Loss::kAll), testing::StartsWith("<|im_start|>user\na"));
  std::string without_b = kChat;
  without_b.replace(without_b.find("\"b\""), 3, "\"b\", \"train\": false");
  EXPECT_EQ(counted(Loss::kAssistant, without_b), "d<|im_end|>\n");
  EXPECT_THAT(counted(Loss::kAll, without_b), testing::Not(HasSubstr("b<|im_end|>")));
}

/// A pair with the answers, whose encoder knows no end token but `end`.
EncodedDocumentPiece encoded_pair(const std::string& chosen, const std::string& rejected,
                                  const char* end = "<|im_end|>") {
  EncodingOptions options{.row = {.answers = Answers::kPair}, .chat_template = {}};
  options.chat_template.text = test::kChatMl;
  options.answer_ends = [&] { return std::vector{test::fixture_tokenizer().id_of(end).value()}; };
  DocumentEncoder encoder(test::fixture_tokenizer(), options);
  return encoder.encode(
      {.bytes = R"({"prompt": "a", "chosen": ")" + chosen + R"(", "rejected": ")" + rejected + R"("})",
       .is_json = true});
}

std::string text_where(std::int32_t value, const std::vector<text::TokenId>& ids,
                       const std::vector<std::int32_t>& mask) {
  std::vector<text::TokenId> found;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (mask[i] == value) found.push_back(ids[i]);
  return test::fixture_tokenizer().decode(found, text::Specials::kKeep);
}

TEST(DocumentEncoder, makes_two_documents_of_a_pair_and_learns_no_prompt) {
  const EncodedDocumentPiece pair = encoded_pair("whale", "ship");
  EXPECT_EQ(pair.fault, "");
  EXPECT_EQ(pair.pair_fault, PairFault::kNone);
  const std::string prompt = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(text_where(0, pair.ids, pair.mask), prompt);
  EXPECT_EQ(text_where(0, pair.rejected_ids, pair.rejected_mask), prompt);
  EXPECT_EQ(text_where(1, pair.ids, pair.mask), "whale<|im_end|>\n");
  EXPECT_EQ(text_where(1, pair.rejected_ids, pair.rejected_mask), "ship<|im_end|>\n");
  EXPECT_EQ(pair.answers.all, 2);
  EXPECT_EQ(pair.answers.endless, 0);
}

TEST(DocumentEncoder, tells_of_pairs_from_which_nothing_or_the_end_alone_is_learnt) {
  EXPECT_EQ(encoded_pair("whale", "whale").pair_fault, PairFault::kEqual);
  EXPECT_EQ(encoded_pair("whale<|endoftext|>", "ship", "<|endoftext|>").pair_fault, PairFault::kUnevenEnd);
}

TEST(DocumentEncoder, tells_the_fault_of_a_line_and_goes_on) {
  const EncodingOptions options;
  DocumentEncoder encoder(test::fixture_tokenizer(), options);
  EXPECT_THAT(encoder.encode({.bytes = kChat, .is_json = true}).fault, HasSubstr("no chat template"));
  EXPECT_THAT(encoder.encode({.bytes = "{", .is_json = true, .line = 3}).fault, HasSubstr("not valid JSON"));
  const EncodedDocumentPiece good =
      encoder.encode({.bytes = R"({"text": "whale"})", .is_json = true, .line = 4});
  EXPECT_EQ(good.fault, "");
  EXPECT_EQ(good.line, 4);
  EXPECT_EQ(test::fixture_tokenizer().decode(good.ids), "whale");
}

TEST(DocumentEncoder, counts_bytes_that_are_no_text) {
  const EncodingOptions options;
  DocumentEncoder encoder(test::fixture_tokenizer(), options);
  EXPECT_EQ(encoder.encode({.bytes = "a\xff", .is_json = false}).repairs, 1);
}

}  // namespace
}  // namespace sluice::corpus
