#include "report/trace/trace_summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using trace::Kind;

constexpr std::int64_t kSecond = 1'000'000'000;

TraceRecord record(Kind kind, const char* name, std::int64_t begin, std::int64_t end,
                   const trace::MatrixSize& matrix = {}) {
  return {kind, 0, name, begin * kSecond, end * kSecond, -1, -1, matrix};
}

/// A step and, behind it, a pass of answers, beside a transfer on another thread.
TraceFile some_rank(std::int64_t wait) {
  TraceFile rank;
  rank.records = {record(Kind::kOperation, "linear", 1, 3, {128, 64}),
                  record(Kind::kOperation, "linear backward", 3, 4, {128, 64}),
                  record(Kind::kOperation, "linear", 4, 5, {64, 64}),
                  record(Kind::kWait, "all_gather", 6, 6 + wait),
                  record(Kind::kOperation, "experts", 5, 9),
                  record(Kind::kStep, "step", 0, 10),
                  record(Kind::kDisk, "read", 2, 8),
                  record(Kind::kOperation, "scan backward", 9, 10),
                  record(Kind::kOperation, "choice of tokens", 12, 13),
                  record(Kind::kPass, "pass", 11, 15),
                  record(Kind::kOperation, "norm", 16, 17)};
  rank.records[6].thread = 1;
  return rank;
}

std::vector<std::pair<std::string, std::vector<double>>> rows_of(const TraceSummary& summary) {
  std::vector<std::pair<std::string, std::vector<double>>> rows;
  for (const TraceShare& share : summary.shares) rows.emplace_back(share.kind, share.seconds);
  return rows;
}

TEST(TraceSummary, counts_each_second_of_a_step_once_and_products_by_shape) {
  const std::array ranks{some_rank(2), some_rank(0)};
  const TraceSummary steps = summarize(ranks, Kind::kStep);
  EXPECT_EQ(steps.count, 1);
  EXPECT_THAT(rows_of(steps), ElementsAre(std::pair("products of projections, 128 x 64", std::vector{3., 3.}),
                                          std::pair("products of projections, 64 x 64", std::vector{1., 1.}),
                                          std::pair("loops of experts", std::vector{2., 4.}),
                                          std::pair("scan", std::vector{1., 1.}),
                                          std::pair("waiting for ranks", std::vector{2., 0.}),
                                          std::pair("the rest", std::vector{1., 1.})));
}

TEST(TraceSummary, keeps_passes_apart_from_steps) {
  const std::array ranks{some_rank(2)};
  const TraceSummary passes = summarize(ranks, Kind::kPass);
  EXPECT_EQ(passes.count, 1);
  EXPECT_THAT(rows_of(passes), ElementsAre(std::pair("choice of tokens", std::vector{1.}),
                                           std::pair("the rest", std::vector{3.})));
  EXPECT_THAT(rows_of(summarize({}, Kind::kPass)), IsEmpty());
}

}  // namespace
}  // namespace sluice
