#include "data/document_starts.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>

namespace sluice {
namespace {

constexpr const char* kPath = "/document_starts";
constexpr std::int64_t kBlock = 4096;

std::int64_t checked_count(const hdf5::File& file, const hdf5::Dataset& starts) {
  const std::vector<std::int64_t> shape = starts.shape();
  if (!starts.is_integer() || shape.size() != 1)
    fail({ExitCode::kBadData, "data.token_file"},
         "the dataset 'document_starts' of {} has the shape {}{}; it must be a list of whole numbers, the "
         "position of each document's first token",
         file.name(), shape_text(shape), starts.is_integer() ? "" : " and holds no integers");
  return shape[0];
}

}  // namespace

bool DocumentStarts::are_in(const hdf5::File& file) { return file.exists(kPath); }

DocumentStarts::DocumentStarts(const hdf5::File& file, std::int64_t tokens)
    : starts_(file.dataset(kPath)), count_(checked_count(file, starts_)), tokens_(tokens) {
  std::int64_t least = 0;
  std::vector<std::int64_t> room;
  for (std::int64_t block = 0; block * kBlock < count_; ++block) {
    const std::span<const std::int64_t> values = read_block(block, room);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] < least || values[i] >= tokens)
        fail({ExitCode::kBadData, "data.token_file"},
             "document_starts[{}] in {} is {}; positions must ascend and lie within the {} tokens, so at "
             "least {} was expected here. Were they made for another token file?",
             block * kBlock + static_cast<std::int64_t>(i), file.name(), values[i], tokens, least);
      least = values[i] + 1;
    }
    first_of_block_.push_back(values.front());
  }
  begins_unmarked_ = first_of_block_.empty() || first_of_block_.front() > 0;
}

std::span<const std::int64_t> DocumentStarts::read_block(std::int64_t block,
                                                         std::vector<std::int64_t>& room) const {
  const std::int64_t begin = block * kBlock;
  room.resize(static_cast<std::size_t>(std::min(kBlock, count_ - begin)));
  starts_.read<std::int64_t>({{begin}, {std::ssize(room)}}, room);
  return room;
}

void DocumentStarts::mark(std::int64_t first, std::span<TokenMark> marks) const {
  const std::int64_t end = first + std::ssize(marks);
  // The last block that begins at or before `first`, whose documents may reach into the range.
  const auto after = std::ranges::upper_bound(first_of_block_, first);
  std::int64_t block = std::max<std::int64_t>(0, after - first_of_block_.begin() - 1);
  std::vector<std::int64_t> room;
  for (; block < std::ssize(first_of_block_) && first_of_block_[static_cast<std::size_t>(block)] < end;
       ++block)
    for (const std::int64_t start : read_block(block, room))
      if (first <= start && start < end) marks[static_cast<std::size_t>(start - first)] = TokenMark::kBegins;
}

std::int64_t DocumentStarts::document_at(std::int64_t token) const {
  const std::int64_t before = begins_unmarked_ ? 1 : 0;
  const std::int64_t block = std::ranges::upper_bound(first_of_block_, token) - first_of_block_.begin() - 1;
  if (block < 0) return 0;
  std::vector<std::int64_t> room;
  const std::span<const std::int64_t> starts = read_block(block, room);
  return before + block * kBlock + (std::ranges::upper_bound(starts, token) - starts.begin()) - 1;
}

std::vector<TokenRange> DocumentStarts::runs(std::span<const std::int64_t> documents) const {
  std::vector<TokenRange> runs;
  runs.reserve(documents.size());
  std::vector<std::int64_t> room;
  std::span<const std::int64_t> values;
  std::int64_t block = -1;
  for (const std::int64_t document : documents) {
    const std::int64_t start = document - (begins_unmarked_ ? 1 : 0);  // index in the dataset
    if (start >= 0 && start / kBlock != block) {
      block = start / kBlock;
      values = read_block(block, room);
    }
    const std::int64_t next = start + 1;
    const std::int64_t first = start < 0 ? 0 : values[static_cast<std::size_t>(start % kBlock)];
    std::int64_t end = tokens_;
    if (next < count_)
      end = next % kBlock == 0 ? first_of_block_[static_cast<std::size_t>(next / kBlock)]
                               : values[static_cast<std::size_t>(next % kBlock)];
    runs.push_back({first, end - first});
  }
  return runs;
}

}  // namespace sluice
