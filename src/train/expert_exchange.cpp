#include "train/expert_exchange.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "ops/buffers/token_rows.hpp"
#include "ops/runtime/tensor_device.hpp"
#include "plan/exchange_limits.hpp"
#include "shard/shard_plan.hpp"

#include <ATen/ops/empty.h>

#include <utility>

namespace sluice {
namespace {

std::int64_t row_bytes(const at::Tensor& rows) { return rows.size(1) * rows.element_size(); }

/// Rank of the group that has each of `experts` experts.
std::vector<std::uint32_t> ranks_of_experts(std::int64_t experts, int ranks) {
  std::vector<std::uint32_t> rank_of;
  for (int rank = 0; rank < ranks; ++rank)
    rank_of.insert(rank_of.end(), static_cast<std::size_t>(equal_part(experts, ranks, rank).count()),
                   static_cast<std::uint32_t>(rank));
  return rank_of;
}

}  // namespace

at::Tensor ExpertExchange::Buffer::rows(std::int64_t rows, std::int64_t width, at::ScalarType dtype) {
  const std::int64_t bytes = rows * width * static_cast<std::int64_t>(c10::elementSize(dtype));
  if (!bytes_.defined() || bytes_.numel() < bytes) {
    bytes_.reset();  // the old buffer is freed before a larger one is allocated
    bytes_ = at::empty({bytes}, at::TensorOptions(device_).dtype(at::kByte));
  }
  return bytes_.narrow(0, 0, bytes).view(dtype).view({rows, width});
}

ExpertExchange::ExpertExchange(Communicator* group, std::int64_t experts, PhaseTimer& timer,
                               MemoryKind memory, TokenFormat format, Gathering gathering)
    : group_(group),
      stream_(memory),
      experts_(experts),
      timer_(timer),
      is_coded_(format == TokenFormat::kInt8),
      gathers_(gathering == Gathering::kAlways ||
               (gathering == Gathering::kBySize && group != nullptr && group->size() <= kGatheringRanks)),
      x_(ops::device_of(memory)),
      d_out_(x_),
      chosen_(x_),
      weights_(x_),
      sums_(x_),
      x_codes_(x_),
      d_out_codes_(x_) {
  if (group != nullptr && !gathers_) rank_of_expert_ = ranks_of_experts(experts, group->size());
}

std::size_t ExpertExchange::begin(const std::vector<std::int64_t>& tokens) {
  round_ = 0;
  if (group_ == nullptr) return tokens.size();
  std::int64_t rounds = std::ssize(tokens);
  group_->all_reduce_max(std::span(&rounds, 1));
  Counts own(tokens);
  own.resize(static_cast<std::size_t>(rounds), 0);
  tokens_.clear();
  for (const std::int64_t count : own)
    tokens_.push_back(exchange_counts(Counts(static_cast<std::size_t>(group_->size()), count)));
  return static_cast<std::size_t>(rounds);
}

std::int64_t ExpertExchange::first_expert() const {
  return group_ == nullptr ? 0 : equal_part_begin(experts_, group_->size(), group_->rank());
}

void ExpertExchange::begin_dispatch(const ops::ExpertTokens& own) {
  const PhaseTimer::Scope phase(timer_, Phase::kDispatch);
  dtype_ = own.x.scalar_type();
  own_tokens_ = own.x.size(0);
  own_ = own;
  if (group_ == nullptr)
    here_ = {as_coded(own.x, x_), as_coded(own.d_out, d_out_), own.experts, own.weights};
  else if (gathers_)
    begin_gather(own);
  else
    begin_route(own);
}

ops::ArrivingTokens ExpertExchange::arriving() {
  around_ = timer_.enter(Phase::kExperts);
  return {std::exchange(here_, {}), own_received()};
}

Range ExpertExchange::own_received() const {
  if (group_ == nullptr) return {0, own_tokens_};
  const auto rank = static_cast<std::size_t>(group_->rank());
  const std::int64_t begin = sum(std::span<const std::int64_t>(received_).first(rank));
  return {begin, begin + received_[rank]};
}

void ExpertExchange::finish_dispatch() {
  timer_.enter(Phase::kDispatch);
  for (Work& work : works_) work.make_stream_wait(kComputeStream);
  works_.clear();
  const Range own = own_received();
  read_codes({0, own.begin});
  read_codes({own.end, sum(received_)});
  coded_.clear();
  own_codes_.clear();
  packed_.clear();
  own_ = {};
  timer_.enter(Phase::kExperts);
}

void ExpertExchange::begin_gather(const ops::ExpertTokens& own) {
  received_ = tokens_[round_];
  round_ = (round_ + 1) % tokens_.size();
  SLUICE_ASSERT(received_[static_cast<std::size_t>(group_->rank())] == own_tokens_,
                "found results for {} tokens, expected {}", own_tokens_,
                received_[static_cast<std::size_t>(group_->rank())]);
  given_ = Counts(received_.size(), own_tokens_);
  given_tokens_.clear();
  begin_each(own, [&](const at::Tensor& rows, const at::Tensor& here) {
    return group_->all_gather(rows.data_ptr(), here.data_ptr(), times(received_, row_bytes(rows)),
                              stream_.after_compute());
  });
}

void ExpertExchange::begin_route(const ops::ExpertTokens& own) {
  list_receivers(own.experts);
  received_ = exchange_counts(given_);
  begin_each(own, [&](const at::Tensor& rows, const at::Tensor& here) {
    packed_.push_back(ops::take_rows(rows, given_tokens_));
    return group_->all_to_all(packed_.back().data_ptr(), times(given_, row_bytes(rows)), here.data_ptr(),
                              times(received_, row_bytes(rows)), stream_.after_compute());
  });
}

template <class Start>
void ExpertExchange::begin_each(const ops::ExpertTokens& own, Start start) {
  const auto fill = [&](const at::Tensor& rows, Buffer& buffer) {
    if (!rows.defined()) return at::Tensor();
    at::Tensor here = buffer.rows(sum(received_), rows.size(1), rows.scalar_type());
    works_.push_back(start(rows, here));
    works_.back().make_stream_wait_for_own_part(kComputeStream);
    return here;
  };
  const auto fill_tokens = [&](const at::Tensor& rows, Buffer& buffer, Buffer& codes) {
    if (!is_coded_ || !rows.defined()) return fill(rows, buffer);
    own_codes_.push_back(ops::code_rows(rows));
    at::Tensor here = buffer.rows(sum(received_), rows.size(1), rows.scalar_type());
    coded_.push_back({fill(own_codes_.back(), codes), here});
    return here;
  };
  // On a stream a rank's own part of one tensor follows the others' parts of the tensors before it: the
  // largest comes last.
  here_.experts = fill(own.experts, chosen_);
  here_.weights = fill(own.weights, weights_);
  here_.d_out = fill_tokens(own.d_out, d_out_, d_out_codes_);
  here_.x = fill_tokens(own.x, x_, x_codes_);
  read_codes(own_received());
}

at::Tensor ExpertExchange::as_coded(const at::Tensor& rows, Buffer& buffer) const {
  if (!is_coded_ || !rows.defined()) return rows;
  at::Tensor rounded = buffer.rows(rows.size(0), rows.size(1), rows.scalar_type());
  ops::read_coded_rows(ops::code_rows(rows), rounded);
  return rounded;
}

void ExpertExchange::read_codes(Range tokens) const {
  for (const CodedRows& arrived : coded_)
    ops::read_coded_rows(arrived.codes.narrow(0, tokens.begin, tokens.count()),
                         arrived.rows.narrow(0, tokens.begin, tokens.count()));
}

void ExpertExchange::list_receivers(const at::Tensor& experts) {
  ops::TokenLists lists = ops::list_tokens(experts, rank_of_expert_, group_->size());
  given_ = std::move(lists.counts);
  given_tokens_ = std::move(lists.tokens);
}

ExpertExchange::Counts ExpertExchange::exchange_counts(const Counts& to_each) const {
  Counts from_each(to_each.size());
  const Counts bytes(to_each.size(), sizeof(std::int64_t));
  group_->host().all_to_all(to_each.data(), bytes, from_each.data(), bytes).wait();
  return from_each;
}

at::Tensor ExpertExchange::sums(std::int64_t rows, std::int64_t width) {
  return sums_.rows(rows, width, at::kFloat).zero_();
}

at::Tensor ExpertExchange::combine(const at::Tensor& sums) {
  timer_.enter(Phase::kCombine);
  at::Tensor out = sent_back(sums);
  timer_.enter(around_);
  return out;
}

std::pair<at::Tensor, at::Tensor> ExpertExchange::combine(const at::Tensor& sums,
                                                          const at::Tensor& d_weights) {
  timer_.enter(Phase::kCombine);
  std::pair<at::Tensor, at::Tensor> out{sent_back(sums),
                                        group_ == nullptr ? d_weights : send_back(d_weights)};
  timer_.enter(around_);
  return out;
}

at::Tensor ExpertExchange::sent_back(const at::Tensor& sums) {
  if (group_ == nullptr) {
    at::Tensor rounded = at::empty(sums.sizes(), sums.options().dtype(dtype_));
    ops::round_rows(sums, rounded);
    return rounded;
  }
  if (dtype_ == at::kFloat) return send_back(sums);
  const at::Tensor rounded = x_.rows(sums.size(0), sums.size(1), dtype_);
  ops::round_rows(sums, rounded);
  return send_back(rounded);
}

at::Tensor ExpertExchange::send_back(const at::Tensor& rows) {
  const at::Tensor parts = d_out_.rows(sum(given_), rows.size(1), rows.scalar_type());
  group_
      ->all_to_all(rows.data_ptr(), times(received_, row_bytes(rows)), parts.data_ptr(),
                   times(given_, row_bytes(rows)), stream_.after_compute())
      .make_stream_wait(kComputeStream);
  return ops::sum_of_parts(parts, given_tokens_, own_tokens_);
}

}  // namespace sluice
