#include "data/batch_source.hpp"

#include "base/range.hpp"
#include "comm/root_exchange.hpp"
#include "data/score_file.hpp"
#include "io/hdf5.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"
#include "support/temporary_directory.hpp"

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using test::test_world;

constexpr std::int64_t kLength = 3;

/// These elements on rank 0, none on the others.
template <class T>
auto on_rank_0(const std::vector<T>& elements) {
  return testing::Eq(test_world().rank() == 0 ? elements : std::vector<T>());
}

/// A file that only rank 0 has: a stream 0, 1, 2, …, perhaps with a loss_mask.
std::filesystem::path stream(const TemporaryDirectory& directory, std::int64_t tokens,
                             const std::vector<std::int64_t>& mask = {}) {
  const std::filesystem::path path = directory / "tokens.h5";
  if (test_world().rank() != 0) return path;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  hdf5::File file = hdf5::File::create(path);
  file.create_dataset("/tokens", DType::kInt32, {tokens}).write(std::span<const std::int64_t>(ids));
  if (!mask.empty())
    file.create_dataset("/loss_mask", DType::kInt8, {tokens}).write(std::span<const std::int64_t>(mask));
  file.close();
  return path;
}

BatchOptions options(const std::filesystem::path& path, std::int64_t batch_sequences,
                     std::int64_t vocabulary) {
  return {.sources = {{path}},
          .file = {.sequence_length = kLength, .vocab_size = vocabulary},
          .batch_sequences = batch_sequences,
          .order = DataOrder::kSequential,
          .seed = 0};
}

TEST(BatchSource, ranks_share_the_global_batch_in_order) {
  for (const std::int64_t batch_sequences : {1, 2, 7}) {
    SCOPED_TRACE(batch_sequences);
    const TemporaryDirectory directory;
    BatchSource source(test_world(), options(stream(directory, 100), batch_sequences, 100));
    EXPECT_EQ(source.sequence_count(), 33);
    for (std::int64_t step = 0; step < 6; ++step) {
      const Batch batch = source.batch(step);
      const Range share = equal_part(batch_sequences, test_world().size(), test_world().rank());
      ASSERT_EQ(batch.sequences, share.count());
      ASSERT_EQ(batch.length, kLength);
      std::vector<std::int64_t> expected;
      for (std::int64_t i = share.begin; i < share.end; ++i)
        for (std::int64_t token = 0; token <= kLength; ++token)
          expected.push_back((step * batch_sequences + i) % 33 * kLength + token);
      EXPECT_EQ(batch.ids, expected);
    }
  }
}

TEST(BatchSource, counts_the_targets_of_the_global_batch_on_every_rank) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = stream(directory, 100);
  BatchSource plain(test_world(), options(path, 4, 100));
  EXPECT_EQ(plain.batch(0).global_targets, 4 * kLength);
  EXPECT_TRUE(plain.batch(0).marks.empty());
  BatchOptions with_documents = options(path, 4, 100);
  with_documents.file.separator_token = 5;
  BatchSource packed(test_world(), with_documents);
  const Batch batch = packed.batch(0);
  EXPECT_EQ(batch.global_targets, 4 * kLength - 1) << "token 6 is predicted by nothing";
  EXPECT_EQ(batch.marks.size(), batch.ids.size());
  EXPECT_EQ(packed.batch(1).global_targets, 4 * kLength);
}

/// The error of a source over these sequences, from all ranks alike.
void expect_no_target(const BatchOptions& options, const std::vector<std::string>& parts) {
  expect_error(ExitCode::kBadData, parts, [&] { BatchSource(test_world(), options); });
}

TEST(BatchSource, steps_that_read_no_target_at_all_are_an_error_before_the_first) {
  const TemporaryDirectory directory, another;
  const std::filesystem::path path = directory / "equal.h5";
  if (test_world().rank() == 0)
    hdf5::File::create(path)
        .create_dataset("/tokens", DType::kInt32, {100})
        .write(std::span<const std::int64_t>(std::vector<std::int64_t>(100)));
  BatchOptions all_separators = options(path, 2, 100);
  all_separators.steps = 5;
  all_separators.file.separator_token = 0;
  expect_no_target(all_separators, {"equal.h5", "target", "one token long", "separator_token"});

  BatchOptions masked = options(stream(another, 13, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}), 1, 100);
  masked.steps = 3;
  expect_no_target(masked, {"tokens.h5", "target", "loss_mask"});
  masked.steps = 4;
  EXPECT_NO_THROW(BatchSource(test_world(), masked)) << "token 10 is read by step 4";
}

TEST(BatchSource, a_file_to_evaluate_that_has_no_target_is_an_error) {
  const TemporaryDirectory directory;
  BatchOptions held_out = options(stream(directory, 12, std::vector<std::int64_t>(12, 0)), 4, 100);
  held_out.file.keep_rest = true;
  expect_no_target(held_out, {"tokens.h5", "target", "loss_mask"});
}

TEST(BatchSource, one_file_of_several_may_have_no_target_and_so_may_a_batch) {
  const TemporaryDirectory directory, another;
  BatchOptions mixed = options(stream(directory, 13, std::vector<std::int64_t>(13, 0)), 1, 100);
  mixed.sources.push_back({stream(another, 100), 1});
  mixed.steps = 20;
  BatchSource source(test_world(), mixed);
  std::int64_t empty = 0;
  for (std::int64_t step = 0; step < 20; ++step) empty += source.batch(step).global_targets == 0 ? 1 : 0;
  EXPECT_GT(empty, 0);
  EXPECT_LT(empty, 20);
}

TEST(BatchSource, a_bad_mask_that_some_step_will_meet_is_an_error_before_the_first) {
  const TemporaryDirectory directory;
  std::vector<std::int64_t> mask(100, 1);
  mask[99] = -100;  // a token of sequence 32
  BatchOptions steps = options(stream(directory, 100, mask), 2, 100);
  steps.steps = 17;
  expect_error(ExitCode::kBadData, {"loss_mask[99]", "tokens.h5", "-100"},
               [&] { BatchSource(test_world(), steps); });
  steps.steps = 16;
  EXPECT_NO_THROW(BatchSource(test_world(), steps));
}

TEST(BatchSource, gives_every_token_once_for_an_evaluation) {
  const TemporaryDirectory directory;
  BatchOptions every_token = options(stream(directory, 12), 4, 100);
  every_token.file.keep_rest = true;
  BatchSource source(test_world(), every_token);
  EXPECT_EQ(source.sequence_count(), 4);
  EXPECT_EQ(source.document_count(), 1);
  const Batch batch = source.sequences(2, 2);
  EXPECT_EQ(batch.global_targets, 5);
  EXPECT_THAT(gather_to_root(test_world(), std::span(batch.ids)),
              on_rank_0(std::vector<std::int64_t>{6, 7, 8, 9, 9, 10, 11, 0}));
  const auto inside = TokenMark::kInside, padding = TokenMark::kPadding;
  EXPECT_THAT(gather_to_root(test_world(), std::span(batch.marks)),
              on_rank_0(std::vector{inside, inside, inside, inside, inside, inside, inside, padding}));
}

TEST(BatchSource, leaves_masked_tokens_out_of_the_targets) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = stream(directory, 13, {1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  BatchSource source(test_world(), options(path, 1, 100));
  EXPECT_TRUE(source.masks_targets());
  EXPECT_FALSE(source.marks_documents());
  EXPECT_FALSE(source.batch(0).separates_documents);
  std::vector<std::int64_t> targets;
  for (int step = 0; step < 4; ++step) targets.push_back(source.batch(step).global_targets);
  EXPECT_THAT(targets, testing::ElementsAre(1, 3, 0, 0));
}

TEST(BatchSource, mixes_files_as_the_mixture_says) {
  const TemporaryDirectory directory, another;
  const std::filesystem::path masked = stream(directory, 13, std::vector<std::int64_t>(13, 0));
  BatchOptions mixed = options(masked, 5, 100);
  mixed.sources = {{masked, 1}, {stream(another, 100), 3}};
  mixed.order = DataOrder::kShuffle;
  BatchSource source(test_world(), mixed);
  EXPECT_EQ(source.sequence_count(), 4 + 33);
  EXPECT_TRUE(source.masks_targets());
  const Mixture mixture({{4, 1}, {33, 3}}, 5, DataOrder::kShuffle, 0);
  for (std::int64_t step = 0; step < 10; ++step) {
    std::vector<std::int64_t> first_ids;
    std::int64_t targets = 0;
    for (const Mixture::Place& place : mixture.batch(step)) {
      first_ids.push_back(place.sequence * kLength);
      targets += place.source == 1 ? kLength : 0;
    }
    const Batch batch = source.batch(step);
    EXPECT_EQ(batch.global_targets, targets) << "of the file without a mask alone";
    const Range share = equal_part(5, test_world().size(), test_world().rank());
    ASSERT_EQ(batch.sequences, share.count());
    for (std::int64_t i = share.begin; i < share.end; ++i)
      EXPECT_EQ(batch.ids[static_cast<std::size_t>((i - share.begin) * (kLength + 1))],
                first_ids[static_cast<std::size_t>(i)]);
  }
}

TEST(BatchSource, knows_several_files_by_all_of_them_and_their_order) {
  const TemporaryDirectory directory, another;
  const std::filesystem::path one = stream(directory, 40), two = stream(another, 43);
  const auto digest = [&](const std::vector<TokenSource>& sources) {
    BatchOptions mixed = options(one, 2, 100);
    mixed.sources = sources;
    return BatchSource(test_world(), mixed).sample_digest();
  };
  const std::string both = digest({{one}, {two}});
  EXPECT_NE(both, digest({{two}, {one}}));
  EXPECT_NE(both, digest({{one}, {one}}));
  EXPECT_EQ(both, digest({{one, 5}, {two, 0.1}})) << "weights are keys of the job";
}

TEST(BatchSource, a_bad_id_that_a_later_file_will_give_is_an_error_before_the_first_step) {
  const TemporaryDirectory directory, another;
  BatchOptions mixed = options(stream(directory, 10), 2, 50);
  mixed.sources.push_back({stream(another, 100), 1});  // token 50 is the last one of sequence 16
  mixed.steps = 15;
  EXPECT_NO_THROW(BatchSource(test_world(), mixed));
  mixed.steps = 20;
  expect_error(ExitCode::kBadData, {"tokens[", "0 to 49"}, [&] { BatchSource(test_world(), mixed); });
}

TEST(BatchSource, knows_a_file_by_its_mask_too) {
  const auto digest = [&](const std::vector<std::int64_t>& mask) {
    const TemporaryDirectory directory;
    return BatchSource(test_world(), options(stream(directory, 7, mask), 1, 100)).sample_digest();
  };
  const std::string without = digest({}), all = digest({1, 1, 1, 1, 1, 1, 1}),
                    some = digest({1, 0, 1, 1, 1, 1, 1});
  EXPECT_NE(without, all);
  EXPECT_NE(all, some);
}

TEST(BatchSource, sends_each_rank_its_own_sequences_alone) {
  const TemporaryDirectory directory;
  BatchSource source(test_world(), options(stream(directory, 100), 7, 100));
  const Traffic before = test_world().traffic();
  const Batch batch = source.batch(0);
  const std::int64_t received = test_world().traffic().received_bytes - before.received_bytes;
  constexpr std::int64_t kOutcome =
      8 * 8;  // its length, code, id and text, the number of targets, and of padding
  const std::int64_t own = test_world().rank() == 0 ? 0 : std::ssize(batch.ids) * 8 + kOutcome;
  EXPECT_EQ(received, own);
}

TEST(BatchSource, a_missing_file_is_the_same_error_on_every_rank) {
  expect_error(ExitCode::kBadData, {"/nowhere/tokens.h5", "No such file"},
               [] { BatchSource(test_world(), options("/nowhere/tokens.h5", 2, 100)); });
}

TEST(BatchSource, a_bad_id_that_some_step_will_meet_is_an_error_before_the_first) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = stream(directory, 100);
  for (const DataOrder order : {DataOrder::kSequential, DataOrder::kShuffle}) {
    BatchOptions all_steps = options(path, 2, 99);  // token 99 is the last one of sequence 32
    all_steps.order = order;
    all_steps.steps = 17;
    expect_error(ExitCode::kBadData, {"tokens[99]", "0 to 98"},
                 [&] { BatchSource(test_world(), all_steps); });
  }
  BatchOptions first_steps = options(path, 2, 99);
  first_steps.steps = 16;
  EXPECT_NO_THROW(BatchSource(test_world(), first_steps));
}

TEST(BatchSource, a_bad_id_is_the_same_error_on_every_rank) {
  const TemporaryDirectory directory;
  BatchSource source(test_world(), options(stream(directory, 100), 2, 10));
  EXPECT_NO_THROW(static_cast<void>(source.batch(0)));
  expect_error(ExitCode::kBadData, {"tokens[10]", "0 to 9"}, [&] { static_cast<void>(source.batch(1)); });
  EXPECT_NO_THROW(static_cast<void>(source.batch(0)));
}

/// Documents of these lengths with the ids 0, 1, 2, …, every third token masked by `masked` if wanted; a file
/// that only rank 0 has.
std::filesystem::path documents(const TemporaryDirectory& directory, const std::vector<std::int64_t>& lengths,
                                bool with_mask = false, std::int64_t masked = 0) {
  const std::filesystem::path path = directory / "documents.h5";
  if (test_world().rank() != 0) return path;
  std::vector<std::int64_t> starts, ids, mask;
  for (const std::int64_t length : lengths) {
    starts.push_back(std::ssize(ids));
    for (std::int64_t t = 0; t < length; ++t) {
      mask.push_back(std::ssize(ids) % 3 == 0 ? masked : 1);
      ids.push_back(std::ssize(ids));
    }
  }
  hdf5::File file = hdf5::File::create(path);
  const auto write = [&](const char* name, const std::vector<std::int64_t>& values) {
    file.create_dataset(name, DType::kInt32, {std::ssize(values)})
        .write(std::span<const std::int64_t>(values));
  };
  write("/tokens", ids);
  write("/document_starts", starts);
  if (with_mask) write("/loss_mask", mask);
  file.close();
  return path;
}

BatchOptions packed(const std::filesystem::path& path, std::int64_t batch_sequences, std::int64_t window) {
  BatchOptions out = options(path, batch_sequences, 1000);
  out.file.sequence_length = 8;
  out.pack = {.window = window, .long_documents = LongDocuments::kSplit};
  out.order = DataOrder::kShuffle;
  return out;
}

/// Lengths 1 to 6, again and again, and one of 20.
std::vector<std::int64_t> many_lengths() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 60; ++i) lengths.push_back(1 + i * i % 6);
  lengths.push_back(20);
  return lengths;
}

TEST(PackedBatchSource, fills_sequences_with_whole_documents_and_counts_what_is_padding) {
  const TemporaryDirectory directory;
  BatchOptions in_order = packed(documents(directory, {5, 3, 4, 2}, /*with_mask=*/true), 2, 10);
  in_order.order = DataOrder::kSequential;
  BatchSource source(test_world(), in_order);
  EXPECT_TRUE(source.marks_documents() && source.masks_targets());
  EXPECT_EQ(source.document_count(), 4);
  ASSERT_EQ(source.facts().size(), 1U);
  EXPECT_EQ(source.facts()[0].packed_sequences, 2);
  EXPECT_EQ(source.facts()[0].packed_inputs, 14);
  const Batch batch = source.batch(0);
  EXPECT_EQ(batch.global_padding, 2);
  EXPECT_EQ(batch.global_targets, 7) << "of 10 tokens that begin no document 3 are masked";
  EXPECT_THAT(gather_to_root(test_world(), std::span(batch.ids)),
              on_rank_0(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 10, 11, 12, 13, 0, 0, 0}));
  const auto in = TokenMark::kInside, new_ = TokenMark::kBegins, pad = TokenMark::kPadding,
             off = TokenMark::kMasked;
  EXPECT_THAT(gather_to_root(test_world(), std::span(batch.marks)),
              on_rank_0(std::vector{new_, in, in, off, in, new_, off, in, pad, new_, off, in, in, new_, in,
                                    pad, pad, pad}));
}

/// Ids and marks of steps [begin, end) on rank 0.
std::vector<std::int64_t> steps_of(BatchSource& source, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> all;
  for (std::int64_t step = begin; step < end; ++step) {
    const Batch batch = source.batch(step);
    for (const std::int64_t id : gather_to_root(test_world(), std::span(batch.ids))) all.push_back(id);
    for (const TokenMark mark : gather_to_root(test_world(), std::span(batch.marks)))
      all.push_back(static_cast<std::int64_t>(mark));
  }
  return all;
}

TEST(PackedBatchSource, steps_that_read_no_target_or_a_bad_mask_are_an_error_before_the_first) {
  const TemporaryDirectory directory, another, third;
  BatchOptions ones = packed(documents(directory, std::vector<std::int64_t>(60, 1)), 2, 7);
  for (const std::int64_t steps : {1, 50}) {
    ones.steps = steps;
    expect_no_target(ones, {"documents.h5", "target", "one token long"});
  }
  const std::filesystem::path masked = documents(another, {4, 2, 4}, /*with_mask=*/true);
  BatchOptions some = packed(masked, 1, 10);
  some.steps = 1;
  EXPECT_NO_THROW(BatchSource(test_world(), some));
  const std::filesystem::path broken = documents(third, {4, 2, 4}, /*with_mask=*/true, -100);
  for (const std::int64_t steps : {1, 50}) {
    some.sources = {{broken}};
    some.steps = steps;
    expect_error(ExitCode::kBadData, {"loss_mask[0]", "documents.h5", "-100"},
                 [&] { BatchSource(test_world(), some); });
  }
}

TEST(PackedBatchSource, gives_the_same_batches_after_a_position_in_the_middle_of_a_window_and_an_epoch) {
  const TemporaryDirectory directory, another;
  BatchOptions mixed = packed(documents(directory, many_lengths()), 5, 7);
  mixed.sources.push_back({documents(another, std::vector<std::int64_t>(30, 3)), 0.5});
  BatchSource whole(test_world(), mixed);
  static_cast<void>(steps_of(whole, 0, 9));
  const std::vector<PackPosition> positions = whole.positions(9);
  EXPECT_EQ(positions.size(), test_world().rank() == 0 ? 2U : 0U);
  const std::vector<double> epochs = whole.epochs(9);
  const std::vector<std::int64_t> expected = steps_of(whole, 9, 20);
  BatchSource resumed(test_world(), mixed);
  static_cast<void>(resumed.sample_digest());
  resumed.go_on(9, positions);
  EXPECT_EQ(resumed.epochs(9), epochs);
  EXPECT_EQ(steps_of(resumed, 9, 20), expected);
  BatchSource without(test_world(), mixed);
  EXPECT_EQ(steps_of(without, 9, 20), expected)
      << "windows are counted from the first where no position is known";
}

TEST(PackedBatchSource, gives_the_same_global_batches_to_any_number_of_ranks) {
  const TemporaryDirectory directory, another;
  BatchSource together(test_world(), packed(documents(directory, many_lengths()), 4, 9));
  const std::unique_ptr<Communicator> alone = test_world().split(test_world().rank(), 0);
  const std::vector<std::int64_t> found = steps_of(together, 0, 6);
  if (test_world().rank() != 0) return;
  BatchSource single(*alone, packed(directory / "documents.h5", 4, 9));
  std::vector<std::int64_t> expected;
  for (std::int64_t step = 0; step < 6; ++step) {
    const Batch batch = single.batch(step);
    expected.insert(expected.end(), batch.ids.begin(), batch.ids.end());
    for (const TokenMark mark : batch.marks) expected.push_back(static_cast<std::int64_t>(mark));
  }
  EXPECT_EQ(found, expected);
}

TEST(PackedBatchSource, looks_at_the_ids_of_the_windows_that_steps_will_read) {
  const TemporaryDirectory directory;
  BatchOptions in_order = packed(documents(directory, std::vector<std::int64_t>(40, 4)), 2, 10);
  in_order.order = DataOrder::kSequential;
  in_order.file.vocab_size = 100;  // token 100 begins document 25, in the third window
  in_order.steps = 5;
  EXPECT_NO_THROW(BatchSource(test_world(), in_order)) << "ten sequences are two windows";
  for (const std::int64_t steps : {6, 10, 1000}) {
    in_order.steps = steps;
    expect_error(ExitCode::kBadData, {"tokens[100]", "0 to 99"},
                 [&] { BatchSource(test_world(), in_order); });
  }
}

/// A file that only rank 0 has, of pairs whose documents have 2 and 3 tokens, with one token of prompt each.
std::filesystem::path pairs(const TemporaryDirectory& directory, std::int64_t count, bool has_mask = true) {
  const std::filesystem::path path = directory / "pairs.h5";
  if (test_world().rank() != 0) return path;
  std::vector<std::int64_t> starts, numbers(static_cast<std::size_t>(2 * count)),
      ids(static_cast<std::size_t>(5 * count));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  for (std::int64_t pair = 0; pair < count; ++pair) starts.insert(starts.end(), {5 * pair, 5 * pair + 2});
  hdf5::File file = hdf5::File::create(path);
  const auto write = [&](const char* name, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& values) {
    file.create_dataset(name, DType::kInt64, shape).write(std::span<const std::int64_t>(values));
  };
  write("/tokens", {5 * count}, ids);
  write("/document_starts", {2 * count}, starts);
  if (has_mask) {
    std::vector<std::int64_t> mask(ids.size(), 1);
    for (const std::int64_t start : starts) mask[static_cast<std::size_t>(start)] = 0;
    write("/loss_mask", {5 * count}, mask);
  }
  write("/pairs", {count, 2}, numbers);
  file.close();
  return path;
}

TEST(BatchSource, gives_each_rank_the_pairs_of_its_sequences) {
  const TemporaryDirectory directory;
  BatchOptions packed = options(pairs(directory, 7), 4, 100);
  packed.file.sequence_length = 10;
  packed.pack = {.window = 100, .unit = PackUnit::kPair};
  BatchSource source(test_world(), packed);
  EXPECT_EQ(source.facts().front().documents, 7);
  EXPECT_TRUE(source.facts().front().has_pairs);
  const Batch batch = source.batch(0);  // four sequences: two pairs in each but the last
  EXPECT_EQ(batch.global_pairs, 7);
  const Range share = equal_part(4, test_world().size(), test_world().rank());
  EXPECT_EQ(batch.sequences, share.count());
  std::int64_t number = 2 * share.begin;
  for (const PreferencePair& pair : batch.pairs) {
    const std::int64_t first = number % 2 * 5;
    EXPECT_EQ(pair.sequence, number / 2 - share.begin);
    EXPECT_EQ(pair.chosen.begin, first);
    EXPECT_EQ(pair.chosen.end, first + 1);
    EXPECT_EQ(pair.rejected.begin, first + 2);
    EXPECT_EQ(pair.rejected.end, first + 4);
    EXPECT_EQ(pair.chosen_document, 2 * number);
    EXPECT_EQ(pair.rejected_document, 2 * number + 1);
    EXPECT_EQ(batch.ids[static_cast<std::size_t>(pair.sequence * 11 + first + 2)], 5 * number + 2);
    ++number;
  }
  EXPECT_EQ(number, std::min<std::int64_t>(7, 2 * share.end));
}

/// A file that only rank 0 has, of scores of all documents of pairs(): -1 - document / 8 for `targets` targets of each,
/// or one more in documents with an odd number.
std::filesystem::path scores_of(const TemporaryDirectory& directory, const BatchOptions& packed,
                                std::int64_t targets) {
  const std::filesystem::path path = directory / fmt::format("scores-{}.h5", targets);
  if (test_world().rank() != 0) return path;
  SourceFiles files(packed);
  const std::int64_t documents = files.file(0).packable_documents().documents();
  ScoreKey key;
  key.tokens_digest = files.file(0).digest().hex();
  key.structure_hash = "s";
  key.vocab_size = 100;
  key.documents = documents;
  key.tokens = files.file(0).token_count();
  ScoreWriter writer(path, key);
  for (std::int64_t document = 0; document < documents; ++document) {
    EXPECT_FALSE(writer.has(document));
    writer.write(document,
                 {.log_prob = -1 - static_cast<double>(document) / 8, .targets = targets + document % 2}, {},
                 {});
    EXPECT_TRUE(writer.has(document));
  }
  writer.finish();
  return path;
}

TEST(BatchSource, gives_pairs_the_log_probabilities_of_the_reference) {
  const TemporaryDirectory directory;
  BatchOptions packed = options(pairs(directory, 7), 4, 100);
  packed.file.sequence_length = 10;
  packed.pack = PackOptions{.window = 100, .unit = PackUnit::kPair};
  packed.steps = 1;
  BatchSource source(test_world(), packed);
  const ReferenceOptions right{{scores_of(directory, packed, 1)}, "s", 100};
  source.take_reference(right);
  for (const PreferencePair& pair : source.batch(0).pairs) {
    EXPECT_EQ(pair.chosen_reference, -1 - static_cast<double>(pair.chosen_document) / 8);
    EXPECT_EQ(pair.rejected_reference, -1 - static_cast<double>(pair.rejected_document) / 8);
  }
  const ReferenceOptions counts{{scores_of(directory, packed, 2)}, "s", 100};
  expect_error(ExitCode::kBadData, {"prefer.reference", "scores-2.h5", "2 targets", "1 target"},
               [&] { source.take_reference(counts); });
  const ReferenceOptions model{right.files, "other", 100};
  expect_error(ExitCode::kBadData, {"prefer.reference", "structure"}, [&] { source.take_reference(model); });
}

TEST(BatchSource, refuses_pairs_without_a_mask_that_tells_answers_from_prompts) {
  const TemporaryDirectory directory;
  BatchOptions packed = options(pairs(directory, 7, /*has_mask=*/false), 4, 100);
  packed.file.sequence_length = 10;
  packed.pack = {.window = 100, .unit = PackUnit::kPair};
  expect_error(ExitCode::kBadData, {"pairs.h5", "loss_mask", "--pairs"},
               [&] { BatchSource(test_world(), packed); });
}

TEST(BatchSource, reads_each_pair_once_in_the_order_of_the_file) {
  const TemporaryDirectory directory;
  BatchOptions held_out = options(pairs(directory, 7), 3, 100);
  held_out.file.sequence_length = 10;
  held_out.file.keep_rest = true;
  held_out.order = DataOrder::kShuffle;
  held_out.pack = {.window = 4, .unit = PackUnit::kPair, .is_alone = true};
  BatchSource source(test_world(), held_out);
  ASSERT_EQ(source.sequence_count(), 7);
  for (std::int64_t first = 0; first < 7; first += 3) {
    const std::int64_t count = std::min<std::int64_t>(3, 7 - first);
    const Batch batch = source.sequences(first, count);
    EXPECT_EQ(batch.global_pairs, count);
    const Range share = equal_part(count, test_world().size(), test_world().rank());
    ASSERT_EQ(std::ssize(batch.pairs), share.count());
    for (std::int64_t i = 0; i < share.count(); ++i)
      EXPECT_EQ(batch.pairs[static_cast<std::size_t>(i)].chosen_document, 2 * (first + share.begin + i));
  }
}

}  // namespace
}  // namespace sluice
