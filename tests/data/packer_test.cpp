#include "data/packer.hpp"

#include "base/random.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using testing::ElementsAre;
using Sequences = std::vector<std::vector<TokenRange>>;

constexpr std::int64_t kLength = 32;

/// Chats are short and of many lengths: 2 to 13 tokens here, a quarter of a sequence on the mean at most.
std::vector<std::int64_t> drawn_lengths(int documents) {
  const RandomStream stream(5, "lengths");
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < documents; ++i)
    lengths.push_back(2 + static_cast<std::int64_t>(stream.bits(static_cast<std::uint64_t>(i)) % 12));
  return lengths;
}

TokenFile write_documents(const TemporaryDirectory& directory, const std::vector<std::int64_t>& lengths,
                          std::int64_t before_the_first = 0) {
  const std::filesystem::path path = directory / "tokens.h5";
  std::vector<std::int64_t> starts;
  std::int64_t tokens = before_the_first;
  for (const std::int64_t length : lengths) {
    starts.push_back(tokens);
    tokens += length;
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  hdf5::File file = hdf5::File::create(path);
  file.create_dataset("/tokens", DType::kInt32, {tokens}).write(std::span<const std::int64_t>(ids));
  file.create_dataset("/document_starts", DType::kInt64, {std::ssize(starts)})
      .write(std::span<const std::int64_t>(starts));
  file.close();
  return TokenFile::open(path, {.sequence_length = kLength, .vocab_size = 1 << 20, .keep_rest = true});
}

Packer packer_of(const TokenFile& file, std::int64_t window, DataOrder order = DataOrder::kShuffle) {
  return {file, {.window = window}, kLength, order, 7};
}

/// Sequences of the windows [begin, end).
std::int64_t sequences_of(const Packer& packer, std::int64_t begin, std::int64_t end) {
  std::int64_t sequences = 0;
  for (std::int64_t window = begin; window < end; ++window) sequences += packer.window(window).sequences();
  return sequences;
}

Sequences take(Packer& packer, std::int64_t begin, std::int64_t end) {
  Sequences all;
  for (std::int64_t number = begin; number < end; ++number) all.push_back(packer.sequence(number));
  return all;
}

TEST(Packer, takes_every_document_once_an_epoch_and_in_another_order_in_the_next) {
  const TemporaryDirectory directory;
  const std::vector<std::int64_t> lengths = drawn_lengths(9000);  // two blocks of starts and a part
  const TokenFile file = write_documents(directory, lengths);
  Packer packer = packer_of(file, 1000);
  ASSERT_EQ(packer.windows(), 9);
  const std::int64_t first_epoch = sequences_of(packer, 0, 9);
  Sequences epochs[2] = {take(packer, 0, first_epoch),
                         take(packer, first_epoch, first_epoch + sequences_of(packer, 9, 18))};
  EXPECT_NE(epochs[0], epochs[1]);
  for (const Sequences& epoch : epochs) {
    std::map<std::int64_t, std::int64_t> taken;
    for (const std::vector<TokenRange>& sequence : epoch)
      for (const TokenRange& run : sequence) EXPECT_TRUE(taken.emplace(run.first, run.count).second);
    std::vector<std::int64_t> found;
    for (const auto& [first, count] : taken) found.push_back(count);
    EXPECT_EQ(found, lengths);
  }
}

TEST(Packer, fills_sequences_to_more_than_97_percent) {
  const TemporaryDirectory directory;
  const TokenFile file = write_documents(directory, drawn_lengths(5000));
  const Packer packer = packer_of(file, 500);
  const auto inputs = static_cast<double>(packer.counts().inputs);
  EXPECT_GT(inputs / static_cast<double>(sequences_of(packer, 0, packer.windows()) * kLength), 0.97);
  EXPECT_LE(packer.least_sequences(), sequences_of(packer, 0, packer.windows()));
}

TEST(Packer, goes_on_from_a_position_in_the_middle_of_a_window) {
  const TemporaryDirectory directory;
  const TokenFile file = write_documents(directory, drawn_lengths(1000));
  Packer whole = packer_of(file, 90);
  const Sequences expected = take(whole, 0, 800);  // more than two epochs
  for (const std::int64_t given : {0, 1, 13, 250, 255, 799}) {
    Packer first = packer_of(file, 90);
    if (given > 0) static_cast<void>(first.sequence(given - 1));
    const PackPosition position = first.position(given);
    Packer second = packer_of(file, 90);
    second.go_on(position, given);
    EXPECT_EQ(take(second, given, 800), Sequences(expected.begin() + given, expected.end())) << given;
    if (given >= 250) {
      EXPECT_GT(position.window, 5) << "no window before is packed again";
    }
  }
}

TEST(Packer, goes_back_where_it_must) {
  const TemporaryDirectory directory;
  const TokenFile file = write_documents(directory, drawn_lengths(300));
  Packer packer = packer_of(file, 50);
  const Sequences expected = take(packer, 0, 20);
  static_cast<void>(packer.sequence(150));
  EXPECT_EQ(packer.position(3), (PackPosition{0, 3}));
  EXPECT_EQ(take(packer, 0, 20), expected);
}

TEST(Packer, follows_the_file_where_the_order_is_sequential) {
  const TemporaryDirectory directory;
  const TokenFile file = write_documents(directory, std::vector<std::int64_t>(12, 16));
  Packer packer = packer_of(file, 4, DataOrder::kSequential);
  for (std::int64_t number = 0; number < 12; ++number) {
    const std::int64_t first = number % 6 * 32;
    EXPECT_THAT(packer.sequence(number),
                testing::ElementsAre(TokenRange{first, 16}, TokenRange{first + 16, 16}));
  }
}

TEST(Packer, tells_epochs_in_documents) {
  const TemporaryDirectory directory;
  const TokenFile file = write_documents(directory, std::vector<std::int64_t>(12, 16));
  Packer packer = packer_of(file, 4);
  for (const std::int64_t given : {0, 1, 2, 3, 6, 7, 15})
    EXPECT_DOUBLE_EQ(packer.epochs(given), static_cast<double>(given) / 6);
}

TEST(Packer, takes_tokens_before_the_first_start_as_a_document) {
  const TemporaryDirectory directory;
  const TokenFile file = write_documents(directory, {4, 5}, 3);
  Packer packer = packer_of(file, 10, DataOrder::kSequential);
  EXPECT_EQ(packer.counts().documents, 3);
  EXPECT_THAT(packer.sequence(0), testing::ElementsAre(TokenRange{0, 3}, TokenRange{3, 4}, TokenRange{7, 5}));
}

TEST(Packer, needs_documents_some_of_which_are_taken) {
  const TemporaryDirectory directory, another;
  const TokenFile file = write_documents(directory, {33, 40});
  expect_error(ExitCode::kBadData, {"all of its 2 documents", "sequence_length = 32", "leave_out"}, [&] {
    Packer(file, {.window = 10, .long_documents = LongDocuments::kLeaveOut}, kLength, DataOrder::kShuffle, 0);
  });
  const std::filesystem::path path = another / "plain.h5";
  hdf5::File plain = hdf5::File::create(path);
  plain.create_dataset("/tokens", DType::kInt32, {4})
      .write(std::span<const std::int64_t>(std::vector<std::int64_t>(4)));
  plain.close();
  const TokenFile without = TokenFile::open(path, {.sequence_length = 3, .vocab_size = 9});
  expect_error(ExitCode::kBadData, {"data.pack", "plain.h5", "document_starts", "sluice tokenize"},
               [&] { packer_of(without, 10); });
}

/// A file of pairs: documents 2i and 2i + 1 have these lengths, of which the first `prompt` tokens are masked.
struct PairLengths {
  std::int64_t prompt, chosen, rejected;
};

TokenFile write_pairs(const TemporaryDirectory& directory, const std::vector<PairLengths>& lengths) {
  const std::filesystem::path path = directory / "pairs.h5";
  std::vector<std::int64_t> starts, mask, pairs;
  for (const PairLengths& pair : lengths)
    for (const std::int64_t length : {pair.chosen, pair.rejected}) {
      pairs.push_back(std::ssize(starts));
      starts.push_back(std::ssize(mask));
      for (std::int64_t i = 0; i < length; ++i) mask.push_back(i < pair.prompt ? 0 : 1);
    }
  const std::int64_t tokens = std::ssize(mask);
  const std::vector<std::int64_t> ids(mask.size(), 1);
  hdf5::File file = hdf5::File::create(path);
  const auto write = [&](const char* name, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& values) {
    file.create_dataset(name, DType::kInt64, shape).write(std::span<const std::int64_t>(values));
  };
  write("/tokens", {tokens}, ids);
  write("/loss_mask", {tokens}, mask);
  write("/document_starts", {std::ssize(starts)}, starts);
  write("/pairs", {std::ssize(lengths), 2}, pairs);
  file.close();
  return TokenFile::open(path, {.sequence_length = kLength, .vocab_size = 2, .keep_rest = true});
}

Packer pair_packer(const TokenFile& file, LongDocuments rule = LongDocuments::kSplit, bool is_alone = false) {
  return {file,
          {.window = 100, .long_documents = rule, .unit = PackUnit::kPair, .is_alone = is_alone},
          kLength,
          DataOrder::kSequential,
          7};
}

/// "number: tokens of the chosen document + of the rejected one" of each pair of a sequence.
std::vector<std::string> pairs_of(Packer& packer, std::int64_t sequence) {
  std::vector<std::string> texts;
  std::vector<TokenRange> runs;
  for (const PackedPair& pair : packer.pairs(sequence)) {
    texts.push_back(fmt::format("{}: {} + {}", pair.number, pair.chosen.count, pair.rejected.count));
    runs.insert(runs.end(), {pair.chosen, pair.rejected});
  }
  EXPECT_EQ(packer.sequence(sequence), runs);
  return texts;
}

TEST(Packer, keeps_both_documents_of_a_pair_in_one_sequence) {
  const TemporaryDirectory directory;
  const TokenFile file = write_pairs(directory, {{2, 10, 12}, {1, 5, 6}, {2, 4, 5}, {1, 16, 16}});
  Packer packer = pair_packer(file);
  EXPECT_EQ(packer.count_sequences(), 3);
  EXPECT_THAT(pairs_of(packer, 0), ElementsAre("0: 10 + 12", "2: 4 + 5"));
  EXPECT_THAT(pairs_of(packer, 1), ElementsAre("1: 5 + 6"));
  EXPECT_THAT(pairs_of(packer, 2), ElementsAre("3: 16 + 16"));
  Packer alone = pair_packer(file, LongDocuments::kSplit, /*is_alone=*/true);
  EXPECT_EQ(alone.least_sequences(), 4);
  EXPECT_EQ(alone.count_sequences(), 4);
  EXPECT_THAT(pairs_of(alone, 2), ElementsAre("2: 4 + 5"));
}

TEST(DocumentStarts, tokens_before_the_first_begin_are_document_0) {
  const TemporaryDirectory directory, marked;
  const TokenFile file = write_documents(directory, {3, 4}, /*before_the_first=*/2);
  const DocumentStarts& starts = file.packable_documents();
  EXPECT_EQ(starts.documents(), 3);
  std::vector<std::int64_t> found;
  for (std::int64_t token = 0; token < 9; ++token) found.push_back(starts.document_at(token));
  EXPECT_THAT(found, ElementsAre(0, 0, 1, 1, 1, 2, 2, 2, 2));
  EXPECT_EQ(write_documents(marked, {3, 4}).packable_documents().document_at(3), 1);
}

TEST(Packer, takes_every_pair_once_an_epoch_in_any_order) {
  const TemporaryDirectory directory;
  std::vector<PairLengths> lengths;
  for (const std::int64_t length : drawn_lengths(500)) lengths.push_back({1, length, 2 + length % 7});
  const TokenFile file = write_pairs(directory, lengths);
  Packer packer(file, {.window = 60, .unit = PackUnit::kPair}, kLength, DataOrder::kShuffle, 7);
  EXPECT_EQ(packer.windows(), 17) << "a window has 60 documents, which are 30 pairs";
  std::map<std::int64_t, int> taken;
  for (std::int64_t number = 0, end = sequences_of(packer, 0, 17); number < end; ++number)
    for (const PackedPair& pair : packer.pairs(number)) {
      ++taken[pair.number];
      EXPECT_EQ(pair.chosen.count, lengths[static_cast<std::size_t>(pair.number)].chosen);
    }
  EXPECT_EQ(std::ssize(taken), 500);
  for (const auto& [number, times] : taken) EXPECT_EQ(times, 1) << number;
}

TEST(Packer, cuts_ends_of_answers_the_longer_first_and_never_the_prompt) {
  const TemporaryDirectory directory;
  const TokenFile file =
      write_pairs(directory, {{4, 30, 10}, {4, 10, 30}, {4, 40, 35}, {15, 16, 40}, {20, 30, 30}});
  Packer packer = pair_packer(file, LongDocuments::kCut, /*is_alone=*/true);
  EXPECT_EQ(packer.counts().long_documents, 5);
  EXPECT_EQ(packer.counts().left_out, 1) << "two prompts of 20 tokens leave no room in 32";
  EXPECT_THAT(pairs_of(packer, 0), ElementsAre("0: 22 + 10"));
  EXPECT_THAT(pairs_of(packer, 1), ElementsAre("1: 10 + 22"));
  EXPECT_THAT(pairs_of(packer, 2), ElementsAre("2: 16 + 16"));
  EXPECT_THAT(pairs_of(packer, 3), ElementsAre("3: 16 + 16"));
  EXPECT_EQ(packer.count_sequences(), 4);
}

TEST(Packer, leaves_out_or_refuses_pairs_that_do_not_fit) {
  const TemporaryDirectory directory;
  const TokenFile file = write_pairs(directory, {{2, 10, 12}, {2, 17, 16}, {2, 4, 5}});
  Packer packer = pair_packer(file, LongDocuments::kLeaveOut);
  EXPECT_EQ(packer.counts().left_out, 1);
  EXPECT_THAT(pairs_of(packer, 0), ElementsAre("0: 10 + 12", "2: 4 + 5"));
  expect_error(ExitCode::kBadData, {"pairs[1]", "17 + 16", "32", "cut", "leave_out"},
               [&] { static_cast<void>(pair_packer(file)); });
}

TEST(Packer, refuses_pairs_without_answers_and_files_without_pairs) {
  const TemporaryDirectory directory, plain;
  const TokenFile file = write_pairs(directory, {{2, 10, 12}, {5, 5, 8}});
  expect_error(ExitCode::kBadData, {"pairs[1]", "no target"}, [&] { static_cast<void>(pair_packer(file)); });
  const TokenFile without = write_documents(plain, {3, 4});
  expect_error(ExitCode::kBadData, {"'pairs'", "tokenize --pairs"},
               [&] { static_cast<void>(pair_packer(without)); });
}

TEST(Packer, refuses_a_long_document_that_must_be_whole) {
  const TemporaryDirectory directory;
  const TokenFile file = write_documents(directory, {5, 33, 8});
  const auto packer = [&](LongDocuments rule) {
    return Packer(file, {.window = 10, .long_documents = rule, .unit = PackUnit::kDocument}, kLength,
                  DataOrder::kSequential, 7);
  };
  expect_error(ExitCode::kBadData, {"document 1", "33 tokens", "= 32"},
               [&] { static_cast<void>(packer(LongDocuments::kSplit)); });
  EXPECT_EQ(packer(LongDocuments::kLeaveOut).count_sequences(), 1);
  EXPECT_EQ(packer(LongDocuments::kCut).count_sequences(), 2);
}

}  // namespace
}  // namespace sluice
