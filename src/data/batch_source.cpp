#include "data/batch_source.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "comm/run_together.hpp"
#include "data/id_check.hpp"

#include <array>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace sluice {

BatchSource::BatchSource(Communicator& comm, BatchOptions options)
    : comm_(comm), options_(std::move(options)) {
  std::array<std::int64_t, 3> found{};
  run_on_root(comm_, [&] {
    file_ = TokenFile::open(options_.tokens, options_.file);
    found = {file_->sequence_count(), options_.file.keep_rest ? file_->count_documents() : 0,
             file_->marks_documents()};
  });
  comm_.broadcast(found.data(), sizeof found, 0).wait();
  sequence_count_ = found[0];
  document_count_ = found[1];
  has_marks_ = found[2] != 0 || options_.file.keep_rest;
  check_ids();
}

/// An outcome after each piece: the others' wait is for one of them, not for all of a large file.
void BatchSource::check_ids() {
  const IdCheck check(options_.sampler(sequence_count_), options_.steps, options_.file.sequence_length);
  for (std::int64_t piece = 0; piece < check.pieces(); ++piece)
    run_on_root(comm_, [&] { check.run(*file_, piece); });
}

Batch BatchSource::batch(std::int64_t step) {
  const Batch whole = read(options_.sampler(sequence_count_).batch(step));
  if (whole.global_targets == 0)
    fail(ExitCode::kBadData,
         "{}: in the batch of step {} every document is one token long, so there is nothing to predict. Is "
         "data.separator_token, or document_starts, what it should be?",
         options_.tokens.string(), step + 1);
  return share_of(whole, comm_.size(), comm_.rank());
}

Batch BatchSource::sequences(std::int64_t first, std::int64_t count) {
  SLUICE_ASSERT(0 <= first && 0 < count && first + count <= sequence_count_, "sequences {} to {} of {}",
                first, first + count, sequence_count_);
  std::vector<std::int64_t> sequences(static_cast<std::size_t>(count));
  std::iota(sequences.begin(), sequences.end(), first);
  return read(sequences);
}

Batch BatchSource::read(const std::vector<std::int64_t>& sequences) {
  const auto width = checked_cast<std::size_t>(options_.file.sequence_length + 1);
  Batch whole{std::ssize(sequences), options_.file.sequence_length};
  whole.ids.resize(sequences.size() * width);
  if (has_marks_) whole.marks.resize(whole.ids.size());
  run_on_root(comm_, [&] {
    std::span<std::int64_t> ids(whole.ids);
    std::span<TokenMark> marks(whole.marks);
    for (const std::int64_t sequence : sequences) {
      file_->read_sequence(sequence, ids.first(width), marks.first(has_marks_ ? width : 0));
      ids = ids.subspan(width);
      marks = marks.subspan(has_marks_ ? width : 0);
    }
  });
  comm_.broadcast(whole.ids.data(), std::ssize(whole.ids) * std::int64_t{sizeof whole.ids[0]}, 0).wait();
  if (has_marks_) comm_.broadcast(whole.marks.data(), std::ssize(whole.marks), 0).wait();
  whole.global_targets = count_targets(whole);
  return whole;
}

}  // namespace sluice
