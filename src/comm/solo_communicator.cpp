#include "comm/solo_communicator.hpp"

#include "base/error.hpp"

#include <cstring>

namespace sluice {
namespace {

/// Copies a rank's own part, which may lie in its place already.
Work copy(const void* in, void* out, std::int64_t bytes) {
  if (in != out && bytes > 0) std::memmove(out, in, static_cast<std::size_t>(bytes));
  return {};
}

[[noreturn]] void refuse_message(int peer) {
  SLUICE_ASSERT(false, "a message between rank 0 and rank {}, in a world of one rank", peer);
  std::abort();
}

}  // namespace

void SoloCommunicator::set_deadline(std::string_view section, double limit_seconds) {
  limit_ = {std::string(section), limit_seconds};
}

std::unique_ptr<Communicator> SoloCommunicator::split(int, int) {
  auto same = std::make_unique<SoloCommunicator>();
  same->limit_ = limit_;
  return same;
}

Work SoloCommunicator::send(const void*, std::int64_t, int to, int, StreamHandle) { refuse_message(to); }

Work SoloCommunicator::receive(void*, std::int64_t, int from, int, StreamHandle) { refuse_message(from); }

Work SoloCommunicator::all_gather(const void* in, void* out, std::span<const std::int64_t> bytes,
                                  StreamHandle) {
  return copy(in, out, bytes.front());
}

Work SoloCommunicator::reduce_scatter_sum(const float* in, float* out, std::span<const std::int64_t> counts,
                                          StreamHandle, DType) {
  return copy(in, out, counts.front() * static_cast<std::int64_t>(sizeof(float)));
}

Work SoloCommunicator::all_to_all(const void* in, std::span<const std::int64_t> send_bytes, void* out,
                                  std::span<const std::int64_t>, StreamHandle) {
  return copy(in, out, send_bytes.front());
}

std::vector<std::string> SoloCommunicator::all_gather_text(std::string_view text) {
  return {std::string(text)};
}

std::string SoloCommunicator::broadcast_text(std::string_view text, int) { return std::string(text); }

}  // namespace sluice
