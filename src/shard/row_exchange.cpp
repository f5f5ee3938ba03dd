#include "shard/row_exchange.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "device/copy.hpp"
#include "shard/rounded_floats.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

/// All-gathers lists of different lengths, as texts.
std::vector<Numbers> gather_lists(Communicator& comm, const Numbers& own) {
  std::vector<Numbers> lists;
  const auto* bytes = reinterpret_cast<const char*>(own.data());
  for (const std::string& list : comm.all_gather_text({bytes, own.size() * sizeof(std::int64_t)})) {
    Numbers& numbers = lists.emplace_back(list.size() / sizeof(std::int64_t));
    std::copy_n(list.data(), list.size(), reinterpret_cast<char*>(numbers.data()));
  }
  return lists;
}

/// Rows of a table on a device, in main memory while gradients are added to them.
class RowsOnHost {
 public:
  /// Row `first` of the whole table is the first row of `table`; `rows` are in any order, possibly repeated.
  RowsOnHost(float* table, std::int64_t first, std::int64_t width, Numbers rows)
      : rows_(std::move(rows)), width_(width) {
    std::ranges::sort(rows_);
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
    values_.resize(rows_.size() * static_cast<std::size_t>(width));
    for (const std::int64_t row : rows_)
      places_.push_back({at(row), table + (row - first) * width, width * std::int64_t{sizeof(float)}});
    copy_ranges(places_);
  }
  [[nodiscard]] float* at(std::int64_t row) {
    return values_.data() + (std::ranges::lower_bound(rows_, row) - rows_.begin()) * width_;
  }
  void save() {
    std::vector<CopiedRange> back;
    for (const CopiedRange& place : places_)
      back.push_back({const_cast<void*>(place.from), place.to, place.bytes});
    copy_ranges(back);
  }

 private:
  Numbers rows_;
  std::int64_t width_;
  std::vector<float> values_;
  std::vector<CopiedRange> places_;
};

}  // namespace

RowExchange::RowExchange(const RankMesh& mesh, const ShardPlan& plan, int unit, const Rows& rows)
    : comm_(&mesh.sharers(plan, unit)),
      rank_(static_cast<std::size_t>(comm_->rank())),
      gradients_(mesh.dims().wire.gradients),
      cuts_{0} {
  const FlatLayout& layout = plan.layouts().units[static_cast<std::size_t>(unit)];
  SLUICE_ASSERT(layout.placements().size() == 1, "unit {} is not a single table of rows", layout.name());
  const Placement& table = layout.placements().front();
  width_ = table.row_elements;
  for (const std::int64_t count : plan.counts(unit, comm_->rank()))
    cuts_.push_back(std::min(table.block_elements / width_, cuts_.back() + count / width_));
  rows_ =
      gather_lists(*comm_, {std::ranges::lower_bound(rows, 0), std::ranges::lower_bound(rows, cuts_.back())});
}

bool RowExchange::fits() const {
  std::int64_t most = 0, all = 0;
  for (const Rows& rows : rows_) {
    most = std::max<std::int64_t>(most, std::ssize(rows));
    all += std::ssize(rows);
  }
  return most + all <= cuts_.back();
}

std::span<const std::int64_t> RowExchange::owned_by(std::size_t owner, const Rows& rows) const {
  return {std::ranges::lower_bound(rows, cuts_[owner]), std::ranges::lower_bound(rows, cuts_[owner + 1])};
}

RowExchange::Counts RowExchange::counts() const {
  Counts counts;
  for (std::size_t other = 0; other < rows_.size(); ++other) {
    counts.of_each.push_back(std::ssize(owned_by(other, rows())));
    counts.by_each.push_back(std::ssize(owned_by(rank_, rows_[other])));
  }
  return counts;
}

std::int64_t RowExchange::gradient_rows() const { return std::ssize(rows()) + sum(counts().by_each); }

void RowExchange::fetch(const std::byte* shard, std::byte* values, std::int64_t element_bytes) const {
  const Counts rows_here = counts();
  const std::int64_t row_bytes = width_ * element_bytes;
  const Numbers sent = times(rows_here.by_each, row_bytes), received = times(rows_here.of_each, row_bytes);
  std::vector<std::byte> packed(static_cast<std::size_t>(sum(sent)));
  std::vector<CopiedRange> copies;
  std::byte* next = packed.data();
  for (const Rows& rows : rows_)
    for (const std::int64_t row : owned_by(rank_, rows)) {
      copies.push_back({next, shard + (row - cuts_[rank_]) * row_bytes, row_bytes});
      next += row_bytes;
    }
  copy_ranges(copies);
  // Rows ascend, and so do their owners.
  comm_->host().all_to_all(packed.data(), sent, values, received).wait();
}

void RowExchange::add_to(float* shard, float* gradients) const {
  const Counts rows_here = counts();
  const std::int64_t row_bytes = width_ * size_of(gradients_), sent = std::ssize(rows()) * width_;
  float* next = gradients + sent;
  if (gradients_ == DType::kBFloat16)
    round_down_to({gradients, static_cast<std::size_t>(sent)}, reinterpret_cast<std::byte*>(gradients));
  comm_->all_to_all(gradients, times(rows_here.of_each, row_bytes), next, times(rows_here.by_each, row_bytes))
      .wait();
  const std::int64_t arrived_bytes = sum(rows_here.by_each) * row_bytes;
  const HostBytes arrived(reinterpret_cast<const std::byte*>(next), arrived_bytes);
  const std::byte* part = arrived.data();
  std::vector<float> widened(static_cast<std::size_t>(width_));
  Rows owned;  // received rows that this rank owns
  for (const Rows& rows : rows_) {
    const auto own = owned_by(rank_, rows);
    owned.insert(owned.end(), own.begin(), own.end());
  }
  std::optional<RowsOnHost> there;
  if (is_on_device(shard)) there.emplace(shard, cuts_[rank_], width_, owned);
  for (const std::int64_t row : owned) {
    float* const sum = there ? there->at(row) : shard + (row - cuts_[rank_]) * width_;
    convert_elements(part, gradients_, widened.data(), DType::kFloat32, width_);
    std::transform(widened.begin(), widened.end(), sum, sum, std::plus<>());
    part += row_bytes;
  }
  if (there) there->save();
}

}  // namespace sluice
