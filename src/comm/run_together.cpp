#include "comm/run_together.hpp"

#include "base/byte_stream.hpp"
#include "comm/outcome.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

SharedError::SharedError(const Cause& cause, const std::string& text, int failing_rank, int this_rank)
    : Error(cause, failing_rank == this_rank ? text : fmt::format("on rank {}: {}", failing_rank, text)),
      text_(text),
      failing_rank_(failing_rank) {}

void run_together(Communicator& comm, const std::function<void()>& step) {
  const Outcome own = outcome_of(step);
  std::array<std::int64_t, 1> failures{own.failed() ? 1 : 0};
  comm.all_reduce_sum(std::span<std::int64_t>(failures));
  if (failures[0] == 0) return;
  const std::vector<std::string> outcomes = comm.all_gather_text(own.to_bytes());
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Outcome outcome = Outcome::from_bytes(outcomes[static_cast<std::size_t>(rank)]);
    if (outcome.failed()) throw SharedError(outcome, outcome.text, rank, comm.rank());
  }
}

void run_on_root(Communicator& comm, const std::function<void()>& step) {
  static_cast<void>(share_from_root(comm, [&] {
    step();
    return std::string();
  }));
}

std::string share_from_root(Communicator& comm, const std::function<std::string()>& step) {
  ByteWriter out;
  if (comm.rank() == 0) {
    std::string made;
    out.text(outcome_of([&] { made = step(); }).to_bytes());
    out.text(made);
  }
  const std::string message = comm.broadcast_text(out.bytes(), 0);
  ByteReader in(message);
  const Outcome outcome = Outcome::from_bytes(in.text());
  if (outcome.failed()) throw SharedError(outcome, outcome.text, 0, 0);
  return in.text();
}

}  // namespace sluice
