#include "data/batch_source.hpp"

#include "base/byte_stream.hpp"
#include "base/checked.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/range.hpp"
#include "comm/root_exchange.hpp"
#include "comm/run_together.hpp"
#include "data/id_check.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// Ids, or marks, of each rank's share of some sequences of `width` tokens.
std::vector<std::int64_t> tokens_of_ranks(std::int64_t sequences, std::int64_t width, int ranks) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank)
    counts.push_back(equal_part(sequences, ranks, rank).count() * width);
  return counts;
}

}  // namespace

BatchSource::BatchSource(Communicator& comm, BatchOptions options)
    : comm_(comm), options_(std::move(options)) {
  const std::string found = share_from_root(comm_, [&] {
    file_ = TokenFile::open(options_.tokens, options_.file);
    ByteWriter out;
    out.number(file_->sequence_count());
    out.number(options_.file.keep_rest ? file_->count_documents() : 0);
    out.number(file_->marks_documents());
    out.number(file_->masks_targets());
    return out.take();
  });
  ByteReader in(found);
  sequence_count_ = in.number();
  document_count_ = in.number();
  marks_documents_ = in.number() != 0 || options_.file.keep_rest;
  masks_targets_ = in.number() != 0;
  check_ids();
}

/// An outcome after each piece: the others' wait is for one of them, not for all of a large file.
void BatchSource::check_ids() {
  const IdCheck check(options_.sampler(sequence_count_), options_.steps, options_.file.sequence_length);
  for (std::int64_t piece = 0; piece < check.pieces(); ++piece)
    run_on_root(comm_, [&] { check.run(*file_, piece); });
}

std::string BatchSource::sample_digest() {
  return share_from_root(comm_, [&] {
    constexpr std::int64_t kMost = 16;
    std::vector<std::int64_t> sequences =
        options_.sampler(sequence_count_).at(0, std::min(kMost, options_.batch_sequences));
    const Batch sample = read(sequences);
    const Digest ids = digest_of(std::as_bytes(std::span(sample.ids)), 0);
    if (!masks_targets_) return ids.hex();
    return digest_of(ids.hex() + digest_of(std::as_bytes(std::span(sample.marks)), 0).hex()).hex();
  });
}

Batch BatchSource::batch(std::int64_t step) {
  Batch own = share(options_.sampler(sequence_count_).batch(step));
  if (own.global_targets == 0 && !masks_targets_)
    fail(ExitCode::kBadData,
         "{}: in the batch of step {} every document is one token long, so there is nothing to predict. Is "
         "data.separator_token, or document_starts, what it should be?",
         options_.tokens.string(), step + 1);
  return own;
}

Batch BatchSource::sequences(std::int64_t first, std::int64_t count) {
  SLUICE_ASSERT(0 <= first && 0 < count && first + count <= sequence_count_, "sequences {} to {} of {}",
                first, first + count, sequence_count_);
  std::vector<std::int64_t> sequences(static_cast<std::size_t>(count));
  std::iota(sequences.begin(), sequences.end(), first);
  return share(sequences);
}

Batch BatchSource::share(const std::vector<std::int64_t>& sequences) {
  Batch whole;  // on rank 0
  const std::string targets = share_from_root(comm_, [&] {
    whole = read(sequences);
    ByteWriter out;
    out.number(count_targets(whole));
    return out.take();
  });
  const std::int64_t length = options_.file.sequence_length;
  Batch own{equal_part(std::ssize(sequences), comm_.size(), comm_.rank()).count(), length};
  own.global_targets = ByteReader(targets).number();
  const std::vector<std::int64_t> counts = tokens_of_ranks(std::ssize(sequences), length + 1, comm_.size());
  own.ids = scatter_from_root(comm_, whole.ids, counts);
  own.separates_documents = marks_documents_;
  if (has_marks()) own.marks = scatter_from_root(comm_, whole.marks, counts);
  return own;
}

Batch BatchSource::read(const std::vector<std::int64_t>& sequences) const {
  const auto width = checked_cast<std::size_t>(options_.file.sequence_length + 1);
  Batch whole{std::ssize(sequences), options_.file.sequence_length};
  whole.ids.resize(sequences.size() * width);
  if (has_marks()) whole.marks.resize(whole.ids.size());
  std::span<std::int64_t> ids(whole.ids);
  std::span<TokenMark> marks(whole.marks);
  for (const std::int64_t sequence : sequences) {
    file_->read_sequence(sequence, ids.first(width), marks.first(has_marks() ? width : 0));
    ids = ids.subspan(width);
    marks = marks.subspan(has_marks() ? width : 0);
  }
  return whole;
}

}  // namespace sluice
