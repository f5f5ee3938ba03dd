// Scatters from rank 0 and gathers to it.
#pragma once

#include "base/range.hpp"
#include "comm/communicator.hpp"
#include "comm/gather_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace sluice {

/// Collective over `comm`. Rank r gets counts[r] elements of rank 0's `whole`, which lie in rank order
/// without gaps; `whole` is ignored on other ranks. `counts` is the same on every rank; zeros are allowed.
template <class T>
[[nodiscard]] std::vector<T> scatter_from_root(Communicator& comm, const std::vector<T>& whole,
                                               const std::vector<std::int64_t>& counts) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::int64_t> sent(counts.size(), 0), received(counts.size(), 0);
  std::vector<T> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]));
  received.front() = std::ssize(own) * std::int64_t{sizeof(T)};
  if (comm.rank() == 0) sent = times(counts, sizeof(T));
  comm.all_to_all(whole.data(), sent, own.data(), received).wait();
  return own;
}

/// Collective over `comm`. Gathers all ranks' elements in rank order on rank 0; other ranks get nothing.
template <class T>
[[nodiscard]] std::vector<T> gather_to_root(Communicator& comm, std::span<const T> own) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::int64_t own_bytes = std::ssize(own) * std::int64_t{sizeof(T)};
  std::vector<std::int64_t> sent(static_cast<std::size_t>(comm.size()), 0), received = sent;
  sent.front() = own_bytes;
  const std::vector<std::int64_t> bytes = gather_rows(comm, own_bytes);
  if (comm.rank() == 0) received = bytes;
  std::vector<T> whole(static_cast<std::size_t>(sum(received)) / sizeof(T));
  comm.all_to_all(own.data(), sent, whole.data(), received).wait();
  return whole;
}

}  // namespace sluice
