#include "train/row_gradients.hpp"

#include "base/counts.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Every rank's list on every rank; their bytes travel as a text of any length does.
std::vector<Numbers> gather_lists(Communicator& comm, const Numbers& own) {
  std::vector<Numbers> lists;
  const auto* bytes = reinterpret_cast<const char*>(own.data());
  for (const std::string& list : comm.all_gather_text({bytes, own.size() * sizeof(std::int64_t)})) {
    Numbers& numbers = lists.emplace_back(list.size() / sizeof(std::int64_t));
    std::copy_n(list.data(), list.size(), reinterpret_cast<char*>(numbers.data()));
  }
  return lists;
}

}  // namespace

RowGradients::RowGradients(Communicator& comm, Rows rows, Rows cuts, std::int64_t width)
    : comm_(comm), rows_(gather_lists(comm, rows)), cuts_(std::move(cuts)), width_(width) {}

std::int64_t RowGradients::most_rows() const {
  std::int64_t most = 0, all = 0;
  for (const Rows& rows : rows_) {
    most = std::max<std::int64_t>(most, std::ssize(rows));
    all += std::ssize(rows);
  }
  return most + all;
}

std::span<const std::int64_t> RowGradients::owned_by(std::size_t owner, const Rows& rows) const {
  return {std::ranges::lower_bound(rows, cuts_[owner]), std::ranges::lower_bound(rows, cuts_[owner + 1])};
}

void RowGradients::add_to(float* shard, float* gradients) const {
  const auto rank = static_cast<std::size_t>(comm_.rank());
  Numbers sent, received;
  for (std::size_t other = 0; other < rows_.size(); ++other) {
    sent.push_back(std::ssize(owned_by(other, rows_[rank])));
    received.push_back(std::ssize(owned_by(rank, rows_[other])));
  }
  const std::int64_t row_bytes = width_ * static_cast<std::int64_t>(sizeof(float));
  float* next = gradients + own_rows() * width_;
  comm_.all_to_all(gradients, times(sent, row_bytes), next, times(received, row_bytes)).wait();
  for (const Rows& rows : rows_)
    for (const std::int64_t row : owned_by(rank, rows)) {
      float* const sum = shard + (row - cuts_[rank]) * width_;
      std::transform(sum, sum + width_, next, sum, std::plus<>());
      next += width_;
    }
}

}  // namespace sluice
