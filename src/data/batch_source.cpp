#include "data/batch_source.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"

#include <exception>
#include <span>
#include <string>
#include <utility>

namespace sluice {

BatchSource::BatchSource(Communicator& comm, BatchOptions options)
    : comm_(comm), options_(std::move(options)) {
  on_rank0([this] {
    file_ = TokenFile::open(options_.tokens, options_.sequence_length, options_.vocab_size);
    sequence_count_ = file_->sequence_count();
  });
  comm_.broadcast(&sequence_count_, sizeof sequence_count_, 0).wait();
}

Batch BatchSource::batch(std::int64_t step) {
  const std::int64_t width = options_.sequence_length + 1;
  std::vector<std::int64_t> ids(checked_cast<std::size_t>(options_.batch_sequences * width));
  on_rank0([&] {
    const Sampler sampler(sequence_count_, options_.batch_sequences, options_.order, options_.seed);
    std::span<std::int64_t> rest(ids);
    for (const std::int64_t sequence : sampler.batch(step)) {
      file_->read_sequence(sequence, rest.first(static_cast<std::size_t>(width)));
      rest = rest.subspan(static_cast<std::size_t>(width));
    }
  });
  comm_.broadcast(ids.data(), std::ssize(ids) * static_cast<std::int64_t>(sizeof ids[0]), 0).wait();
  const SequenceRange share = rank_share(options_.batch_sequences, comm_.size(), comm_.rank());
  return {share.size(),
          options_.sequence_length,
          {ids.begin() + share.begin * width, ids.begin() + share.end * width}};
}

/// Runs `action` on rank 0, then lets all ranks know how it went: a status of "code text", empty for success.
void BatchSource::on_rank0(const std::function<void()>& action) {
  std::string status;
  if (comm_.rank() == 0) {
    try {
      action();
    } catch (const Error& error) {
      status = fmt::format("{} {}", static_cast<int>(error.code()), error.what());
    } catch (const std::exception& error) {
      status = fmt::format("{} reading tokens: {}", static_cast<int>(ExitCode::kInternal), error.what());
    }
  }
  status = comm_.broadcast_text(status, 0);
  if (status.empty()) return;
  const std::size_t blank = status.find(' ');
  throw Error(static_cast<ExitCode>(std::stoi(status.substr(0, blank))), status.substr(blank + 1));
}

}  // namespace sluice
