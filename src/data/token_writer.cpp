#include "data/token_writer.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {
namespace {

/// Rows of a chunk, and rows that wait in memory: 1 MiB of tokens.
constexpr std::int64_t kBlockRows = 256 * std::int64_t{1024};

hdf5::Dataset growing(hdf5::File& file, const char* path, DType dtype,
                      const std::vector<std::int64_t>& shape = {0}) {
  return file.create_dataset(path, dtype, shape, {.block_rows = kBlockRows, .holes = true});
}

}  // namespace

template <class T>
void TokenWriter::Column<T>::append(std::span<const T> values) {
  waiting_.insert(waiting_.end(), values.begin(), values.end());
  if (std::ssize(waiting_) >= kBlockRows) flush();
}

template <class T>
void TokenWriter::Column<T>::flush() {
  if (waiting_.empty()) return;
  const std::int64_t count = std::ssize(waiting_) / width_;
  const hdf5::Hyperslab rows =
      width_ == 1 ? hdf5::Hyperslab{{written_}, {count}} : hdf5::Hyperslab{{written_, 0}, {count, width_}};
  dataset_.set_rows(written_ + count);
  dataset_.write<T>(rows, std::span<const T>(waiting_));
  written_ += count;
  waiting_.clear();
}

template <class T>
void TokenWriter::Column<T>::finish() {
  flush();
  const hdf5::Dataset released = std::move(dataset_);
}

TokenWriter::TokenWriter(const std::filesystem::path& path, const std::string& shown_name)
    : file_(hdf5::File::create(path, shown_name)),
      tokens_(growing(file_, "/tokens", DType::kInt32)),
      starts_(growing(file_, "/document_starts", DType::kInt64)) {}

void TokenWriter::begin_mask() {
  if (mask_) return;
  mask_.emplace(growing(file_, "/loss_mask", DType::kUInt8));
  for (std::int64_t left = token_count(); left > 0; left -= kBlockRows)
    mask_->append(std::vector<std::int32_t>(static_cast<std::size_t>(std::min(left, kBlockRows)), 1));
}

void TokenWriter::begin_document() {
  const std::int64_t start = token_count();
  starts_.append({&start, 1});
  begins_ = true;
}

void TokenWriter::pair_documents() {
  SLUICE_ASSERT(document_count() >= 2, "a pair of {} documents", document_count());
  if (!pairs_) pairs_.emplace(growing(file_, kPairsDataset, DType::kInt64, {0, 2}), 2);
  pairs_->append(std::array{document_count() - 2, document_count() - 1});
}

void TokenWriter::append(std::span<const std::int32_t> tokens, std::span<const std::int32_t> mask) {
  SLUICE_ASSERT(mask.size() == (mask_ ? tokens.size() : 0), "{} tokens and {} values of a mask",
                tokens.size(), mask.size());
  if (tokens.empty()) return;
  tokens_.append(tokens);
  const std::size_t first = std::exchange(begins_, false) ? 1 : 0;
  targets_ += mask_ ? std::ranges::count(mask.subspan(first), 1) : std::ssize(tokens.subspan(first));
  if (mask_) mask_->append(mask);
}

hdf5::File& TokenWriter::finish() {
  tokens_.finish();
  starts_.finish();
  if (mask_) mask_->finish();
  if (pairs_) pairs_->finish();
  if (answers_.all > 0) {
    file_.set_attribute("/", kAnswersAttribute, answers_.all);
    file_.set_attribute("/", kEndlessAttribute, answers_.endless);
  }
  return file_;
}

}  // namespace sluice
