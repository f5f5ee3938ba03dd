// Gathers one row of numbers from every rank.
#pragma once

#include "comm/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace sluice {

/// Collective over `comm`. Every rank's row, in rank order, on every rank.
template <class Row>
[[nodiscard]] std::vector<Row> gather_rows(Communicator& comm, const Row& mine) {
  static_assert(std::is_trivially_copyable_v<Row>);
  std::vector<Row> rows(static_cast<std::size_t>(comm.size()));
  const std::vector<std::int64_t> bytes(rows.size(), sizeof(Row));
  comm.all_gather(&mine, rows.data(), bytes).wait();
  return rows;
}

}  // namespace sluice
