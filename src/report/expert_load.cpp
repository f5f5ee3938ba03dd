#include "report/expert_load.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

namespace sluice {
namespace {

constexpr std::string_view kCells = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

double sum_of(std::span<const double> tokens) { return std::accumulate(tokens.begin(), tokens.end(), 0.0); }

char cell_of(double tokens, double even) {
  if (!(tokens > 0)) return kCells.front();
  const double level = std::clamp(32 + 31.0 / 3 * std::log2(tokens / even), 1.0, 63.0);
  return kCells[static_cast<std::size_t>(std::lround(level))];
}

}  // namespace

bool is_expert_tokens(const JoinedColumn& column) {
  return column.name == "moe/expert_tokens" && column.shape.size() == 2;
}

std::vector<double> busiest_experts(const JoinedMetrics& metrics, const JoinedColumn& column,
                                    const Thinning& thinning) {
  SLUICE_ASSERT(is_expert_tokens(column), "{}", column.name);
  const auto experts = static_cast<std::size_t>(column.shape[1]);
  std::vector<double> sums(static_cast<std::size_t>(thinning.points())), layers(sums.size());
  const auto add = [&](std::size_t point, std::span<const double> layer) {
    const double busiest = busiest_expert(layer);
    if (std::isnan(busiest)) return;
    sums[point] += busiest;
    ++layers[point];
  };
  const std::int64_t width = column.elements();
  metrics.for_pieces(column, [&](std::int64_t first, std::int64_t count, std::span<const double> values) {
    for (std::int64_t at = 0; at < count * width; at += column.shape[1])
      add(static_cast<std::size_t>(thinning.point_of(first + at / width)),
          values.subspan(static_cast<std::size_t>(at), experts));
  });
  std::ranges::transform(sums, layers, sums.begin(), std::divides());
  return sums;
}

std::string ExpertLoad::cells(std::int64_t layer) const {
  const auto width = static_cast<std::size_t>(experts), row = static_cast<std::size_t>(layers) * width;
  std::string text;
  for (std::size_t at = static_cast<std::size_t>(layer) * width; at < tokens.size(); at += row) {
    const auto group = std::span(tokens).subspan(at, width);
    const double even = sum_of(group) / static_cast<double>(experts);
    for (const double expert : group) text += cell_of(expert, even);
  }
  return text;
}

ExpertLoad expert_load(const JoinedMetrics& metrics, const JoinedColumn& column, const Thinning& thinning) {
  SLUICE_ASSERT(is_expert_tokens(column), "{}", column.name);
  const std::int64_t width = column.elements();
  ExpertLoad load{column.shape[0], column.shape[1], {}};
  load.tokens.resize(static_cast<std::size_t>(thinning.points() * width));
  metrics.for_pieces(column, [&](std::int64_t first, std::int64_t count, const std::vector<double>& values) {
    for (std::int64_t row = 0; row < count; ++row) {
      double* group = load.tokens.data() + thinning.point_of(first + row) * width;
      const double* own = values.data() + row * width;
      for (std::int64_t i = 0; i < width; ++i) group[i] += std::isfinite(own[i]) ? own[i] : 0;
    }
  });
  return load;
}

std::vector<std::vector<double>> expert_shares(const JoinedMetrics& metrics) {
  const JoinedColumn* column = metrics.find("moe/expert_tokens");
  if (column == nullptr || !is_expert_tokens(*column)) return {};
  const ExpertLoad load = expert_load(metrics, *column, Thinning(metrics.rows(), 1));
  std::vector<std::vector<double>> shares;
  for (auto layer = load.tokens.begin(); layer != load.tokens.end(); layer += load.experts) {
    std::vector<double>& own = shares.emplace_back(layer, layer + load.experts);
    const double tokens = sum_of(own);
    for (double& share : own) share = tokens == 0 ? 1 / static_cast<double>(load.experts) : share / tokens;
  }
  return shares;
}

}  // namespace sluice
