#include "data/batch_source.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "base/range.hpp"
#include "base/round.hpp"
#include "base/trace/recorder.hpp"
#include "comm/long_work.hpp"
#include "comm/root_exchange.hpp"
#include "comm/run_together.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// Ids or marks of each rank's share of some sequences, each `width` tokens wide.
std::vector<std::int64_t> tokens_of_ranks(std::int64_t sequences, std::int64_t width, int ranks) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank)
    counts.push_back(equal_part(sequences, ranks, rank).count() * width);
  return counts;
}

void write(const SourceFacts& facts, ByteWriter& out) {
  for (const std::int64_t number : {facts.sequences, facts.documents, facts.long_documents, facts.left_out,
                                    facts.packed_sequences, facts.packed_inputs})
    out.number(number);
  for (const bool is_so :
       {facts.marks_documents, facts.masks_targets, facts.is_packed, facts.holds_pairs, facts.has_pairs})
    out.number(is_so ? 1 : 0);
}

SourceFacts read_facts(ByteReader& in) {
  SourceFacts facts;
  for (std::int64_t* number : {&facts.sequences, &facts.documents, &facts.long_documents, &facts.left_out,
                               &facts.packed_sequences, &facts.packed_inputs})
    *number = in.number();
  for (bool* is_so :
       {&facts.marks_documents, &facts.masks_targets, &facts.is_packed, &facts.holds_pairs, &facts.has_pairs})
    *is_so = in.number() != 0;
  return facts;
}

void write(const TeacherFacts& teacher, ByteWriter& out) {
  out.number(teacher.width);
  out.number(std::bit_cast<std::int64_t>(teacher.temperature));
  out.number(teacher.is_exact ? 1 : 0);
}

TeacherFacts read_teacher(ByteReader& in) {
  TeacherFacts teacher;
  teacher.width = in.number();
  teacher.temperature = std::bit_cast<double>(in.number());
  teacher.is_exact = in.number() != 0;
  return teacher;
}

}  // namespace

BatchSource::BatchSource(Communicator& comm, BatchOptions options)
    : comm_(comm), options_(std::move(options)) {
  const std::string found = share_from_root(comm_, [&] {
    files_.emplace(options_);
    ByteWriter out;
    for (const SourceFacts& facts : files_->facts()) write(facts, out);
    write(files_->teacher(), out);
    return out.take();
  });
  ByteReader in(found);
  for (std::size_t source = 0; source < options_.sources.size(); ++source) facts_.push_back(read_facts(in));
  teacher_ = read_teacher(in);
  marks_documents_ = options_.marks_documents(facts_);
  masks_targets_ = std::ranges::any_of(facts_, &SourceFacts::masks_targets);
  mixture_.emplace(options_.mixture(facts_));
  check_tokens();
}

void BatchSource::take_reference(const ReferenceOptions& options) {
  run_long_on_root(comm_, [&](const std::function<void()>& tell) { files_->take_reference(options, tell); });
}

std::int64_t BatchSource::sequence_count() const { return mixture_->sequences(); }

std::int64_t BatchSource::document_count() const {
  std::int64_t documents = 0;
  for (const SourceFacts& facts : facts_) documents += facts.documents;
  return documents;
}

/// Ranks exchange an outcome after each piece, so that the others wait for one piece, not for all of a large
/// file.
void BatchSource::check_tokens() {
  const std::string pieces = share_from_root(comm_, [&] {
    ByteWriter out;
    out.number(files_->check_pieces());
    return out.take();
  });
  for (std::int64_t piece = 0, end = ByteReader(pieces).number(); piece < end; ++piece)
    run_on_root(comm_, [&] { files_->check(piece); });
}

std::string BatchSource::sample_digest() {
  return share_from_root(comm_, [&] { return files_->sample_digest(); });
}

std::string BatchSource::whole_digest() {
  return share_from_root(comm_, [&] { return files_->whole_digest(); });
}

std::vector<PackPosition> BatchSource::positions(std::int64_t step) {
  if (!files_ || !options_.pack) return {};
  const std::vector<std::int64_t> given = mixture_->taken(step * options_.batch_sequences);
  std::vector<PackPosition> positions;
  for (std::size_t source = 0; source < given.size(); ++source)
    positions.push_back(files_->packer(source)->position(given[source]));
  return positions;
}

void BatchSource::go_on(std::int64_t step, const std::vector<PackPosition>& positions) {
  if (!files_ || positions.empty()) return;
  const std::vector<std::int64_t> given = mixture_->taken(step * options_.batch_sequences);
  SLUICE_ASSERT(positions.size() == given.size(), "found positions of {} sources, expected {}",
                positions.size(), given.size());
  for (std::size_t source = 0; source < given.size(); ++source)
    files_->packer(source)->go_on(positions[source], given[source]);
}

std::vector<double> BatchSource::epochs(std::int64_t step) {
  if (!files_) return {};
  const std::vector<std::int64_t> given = mixture_->taken(step * options_.batch_sequences);
  std::vector<double> epochs;
  for (std::size_t source = 0; source < given.size(); ++source) {
    Packer* const packer = files_->packer(source);
    epochs.push_back(packer ? packer->epochs(given[source])
                            : static_cast<double>(given[source]) /
                                  static_cast<double>(facts_[source].sequences));
  }
  return epochs;
}

Batch BatchSource::batch(std::int64_t step) {
  const trace::Span span(trace::Kind::kOperation, "batch", step + 1);
  return share(mixture_->batch(step));
}

Batch BatchSource::sequences(std::int64_t first, std::int64_t count) {
  SLUICE_ASSERT(facts_.size() == 1, "{} files to read from front to back", facts_.size());
  SLUICE_ASSERT(0 <= first && 0 < count && first + count <= sequence_count(), "sequences {} to {} of {}",
                first, first + count, sequence_count());
  std::vector<Mixture::Place> places;
  for (std::int64_t sequence = first; sequence < first + count; ++sequence) places.push_back({0, sequence});
  return share(places);
}

std::int64_t BatchSource::batches_in_order(std::int64_t batch_sequences) const {
  return divide_up(sequence_count(), batch_sequences);
}

Batch BatchSource::batch_in_order(std::int64_t number, std::int64_t batch_sequences) {
  const std::int64_t first = number * batch_sequences;
  return sequences(first, std::min(batch_sequences, sequence_count() - first));
}

/// Gives each rank the pairs of its sequences; `whole`, on rank 0, are those of all `sequences`.
void BatchSource::share_pairs(const std::vector<PreferencePair>& whole, std::int64_t sequences, Batch& own) {
  const auto part = [&](int rank) { return equal_part(sequences, comm_.size(), rank); };
  const std::string counts_text = share_from_root(comm_, [&] {
    ByteWriter out;
    for (int rank = 0; rank < comm_.size(); ++rank)
      out.number(std::ranges::count_if(whole, [&](const PreferencePair& pair) {
        return part(rank).begin <= pair.sequence && pair.sequence < part(rank).end;
      }));
    return out.take();
  });
  ByteReader in(counts_text);
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < comm_.size(); ++rank) counts.push_back(in.number());
  own.pairs = scatter_from_root(comm_, whole, counts);
  for (PreferencePair& pair : own.pairs) pair.sequence -= part(comm_.rank()).begin;
  own.global_pairs = sum(counts);
}

/// This rank's part of the teacher's distributions; `whole`, on rank 0, are those of all `sequences`.
TeacherRows BatchSource::share_teacher(const TeacherRows& whole, std::int64_t sequences) {
  const std::vector<std::int64_t> rows =
      tokens_of_ranks(sequences, options_.file.sequence_length, comm_.size());
  const std::vector<std::int64_t> named = times(rows, teacher_.width);
  return {teacher_.width, scatter_from_root(comm_, whole.ids, named),
          scatter_from_root(comm_, whole.weights, named), scatter_from_root(comm_, whole.rest, rows)};
}

Batch BatchSource::share(const std::vector<Mixture::Place>& places) {
  Batch whole;  // the whole batch, filled on rank 0 alone
  const std::string counts_text = share_from_root(comm_, [&] {
    whole = files_->read(places);
    ByteWriter out;
    out.number(count_targets(whole));
    out.number(count_padding(whole));
    return out.take();
  });
  const std::int64_t length = options_.file.sequence_length;
  Batch own{equal_part(std::ssize(places), comm_.size(), comm_.rank()).count(), length};
  ByteReader counted(counts_text);
  own.global_targets = counted.number();
  own.global_padding = counted.number();
  const std::vector<std::int64_t> counts = tokens_of_ranks(std::ssize(places), length + 1, comm_.size());
  own.ids = scatter_from_root(comm_, whole.ids, counts);
  own.separates_documents = marks_documents_;
  if (has_marks()) own.marks = scatter_from_root(comm_, whole.marks, counts);
  if (options_.keeps_places) own.places = scatter_from_root(comm_, whole.places, counts);
  if (teacher_.width > 0) own.teacher = share_teacher(whole.teacher, std::ssize(places));
  own.teacher_facts = teacher_;
  if (options_.has_pairs()) share_pairs(whole.pairs, std::ssize(places), own);
  return own;
}

}  // namespace sluice
