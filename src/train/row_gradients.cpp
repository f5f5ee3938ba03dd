#include "train/row_gradients.hpp"

#include "base/counts.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

std::int64_t bytes_of(std::int64_t numbers) {
  return numbers * static_cast<std::int64_t>(sizeof(std::int64_t));
}

/// Every rank's list on every rank.
std::vector<Numbers> gather_lists(Communicator& comm, const Numbers& own) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  Numbers counts(ranks);
  const auto count = std::ssize(own);
  comm.all_gather(&count, counts.data(), Numbers(ranks, bytes_of(1))).wait();
  Numbers all(static_cast<std::size_t>(sum(counts)));
  comm.all_gather(own.data(), all.data(), times(counts, bytes_of(1))).wait();
  std::vector<Numbers> lists;
  for (auto begin = all.cbegin(); const std::int64_t size : counts) {
    lists.emplace_back(begin, begin + size);
    begin += size;
  }
  return lists;
}

}  // namespace

RowGradients::RowGradients(Communicator& comm, Rows rows, Rows cuts)
    : comm_(comm), rows_(gather_lists(comm, rows)), cuts_(std::move(cuts)) {}

std::int64_t RowGradients::most_rows() const {
  std::int64_t most = 0, all = 0;
  for (const Rows& rows : rows_) {
    most = std::max<std::int64_t>(most, std::ssize(rows));
    all += std::ssize(rows);
  }
  return most + all;
}

Numbers RowGradients::counts_by_owner(const Rows& rows) const {
  Numbers counts;
  for (std::size_t owner = 0; owner + 1 < cuts_.size(); ++owner)
    counts.push_back(std::ranges::lower_bound(rows, cuts_[owner + 1]) -
                     std::ranges::lower_bound(rows, cuts_[owner]));
  return counts;
}

void RowGradients::add_to(float* shard, float* gradients, std::int64_t width) const {
  const auto rank = static_cast<std::size_t>(comm_.rank());
  const std::int64_t row_bytes = width * static_cast<std::int64_t>(sizeof(float));
  Numbers received;
  for (const Rows& rows : rows_) received.push_back(counts_by_owner(rows)[rank]);
  const float* next = gradients + own_rows() * width;
  comm_
      .all_to_all(gradients, times(counts_by_owner(own()), row_bytes), gradients + own_rows() * width,
                  times(received, row_bytes))
      .wait();
  for (const Rows& rows : rows_)
    for (auto row = std::ranges::lower_bound(rows, cuts_[rank]); row != rows.end() && *row < cuts_[rank + 1];
         ++row, next += width) {
      float* const sum = shard + (*row - cuts_[rank]) * width;
      std::transform(sum, sum + width, next, sum, std::plus<>());
    }
}

}  // namespace sluice
