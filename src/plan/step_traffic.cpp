#include "plan/step_traffic.hpp"

#include "base/range.hpp"
#include "base/round.hpp"
#include "encoding/token_rows.hpp"
#include "plan/exchange_limits.hpp"
#include "plan/optimizer_layout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace sluice {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float), kNumberBytes = sizeof(double);

/// Part of an amount, rounded to bytes.
std::int64_t part_of(double amount) { return std::llround(amount); }

/// Distinct tokens to expect among `tokens` that are drawn evenly from a vocabulary.
double distinct_tokens(std::int64_t tokens, std::int64_t vocabulary) {
  const auto size = static_cast<double>(vocabulary);
  return size * (1 - std::pow(1 - 1 / size, static_cast<double>(tokens)));
}

/// Probability that a token which chooses k of `all` experts chooses one of `some` of them.
double share_of_even_tokens(std::int64_t all, std::int64_t some, std::int64_t k) {
  double none = 1;
  for (std::int64_t choice = 0; choice < k; ++choice)
    none *= std::max(0.0, static_cast<double>(all - some - choice) / static_cast<double>(all - choice));
  return 1 - none;
}

/// Bytes that one of `ranks` ranks sends in a sum over ranks of some numbers (MpiCommunicator::all_reduce()).
std::int64_t sum_bytes(std::int64_t numbers, std::int64_t ranks) {
  const std::int64_t sent = numbers * kNumberBytes * (ranks - 1);
  return numbers < ranks ? sent : 2 * sent / ranks;
}

/// The traffic of all ranks, counted purpose by purpose.
class TrafficCount {
 public:
  TrafficCount(const ModelConfig& model, const ShardPlan& plan, const StagePlan& stages, const Workload& work,
               const StoredTensors& stored)
      : model_(model),
        plan_(plan),
        stages_(stages),
        work_(work),
        stored_(stored_bytes(plan, stored)),
        backward_passes_(work.trains ? work.backward_passes : 0),
        lowest_layer_(work.trains ? stages.lowest_trained_layer(plan) : model.layer_count()),
        ranks_(static_cast<std::size_t>(plan.dims().ranks())) {}

  void count_layers() {
    for (int layer = 0; layer < model_.layer_count(); ++layer) {
      const int times = 1 + (layer >= lowest_layer_ ? backward_passes_ : 0);
      for (const int unit : stages_.layers[static_cast<std::size_t>(layer)].units) {
        const bool experts = plan_.has_experts(unit);
        count_gathers(unit, times, experts ? &StepTraffic::expert_weights : &StepTraffic::dense_weights);
        count_reductions(unit);
      }
    }
  }

  void count_vocabulary(const ParameterManifest& manifest) {
    const int embedding = stages_.embed.units.front();
    for (const int unit : stages_.head.units) {
      count_gathers(unit, std::max(1, backward_passes_), &StepTraffic::vocabulary);
      count_reductions(unit);
    }
    if (plan_.sharers(embedding) == 1 || plan_.is_kept(embedding)) return;
    const bool is_by_rows = plan_.is_by_rows(embedding);
    for (int first = 0; first < ranks(); first += plan_.world()) {
      if (is_by_rows) count_shared_head(first, head_rank(manifest));
      if (is_by_rows || rows_fit()) count_rows(embedding, first);
    }
    if (is_by_rows || rows_fit()) return;
    count_gathers(embedding, 1, &StepTraffic::vocabulary);
    count_reductions(embedding);
  }

  void count_tokens(const ExpertShares& shares) {
    if (plan_.dims().expert_parallel == 1) return;
    for (int layer = 0; layer < model_.moe_layer_count(); ++layer) {
      const bool is_reached = model_.moe_layer(layer) >= lowest_layer_;
      count_tokens_of_layer(shares_of_tokens(shares, layer), is_reached ? backward_passes_ : 0);
    }
  }

  /// Gradients that counterparts in several sets add up: each sums its part of them, and sends it to the others.
  void count_sums_over_sets() {
    const int sets = plan_.dims().replicas;
    for (int unit = 0; sets > 1 && unit < static_cast<int>(plan_.layouts().units.size()); ++unit) {
      if (!plan_.is_trained(unit)) continue;
      const auto purpose = gradients_of(unit);
      for (int rank = 0; rank < ranks(); ++rank) {
        const std::int64_t all = plan_.owned(unit, member(rank)).count();
        const std::int64_t own = equal_part(all, sets, plan_.dims().set(rank)).count();
        at(rank).*purpose += backward_passes_ * gradient_bytes() * (all - own + own * (sets - 1));
      }
    }
  }

  /// Sums over ranks, and the batch that rank 0 hands out.
  void count_rest(const ParameterManifest& manifest) {
    const auto sum_of = [&](std::int64_t numbers) { return sum_bytes(numbers, ranks()); };
    const std::int64_t bytes =
        2 * sum_of(model_.moe_layer_count() * model_.experts) + sum_of(work_.has_z_loss ? 1 : 0) +
        backward_passes_ * (sum_of(1) + sum_of(2) + sum_of(plan_.layouts().trained_buffers.count()));
    for (int rank = 0; rank < ranks(); ++rank) at(rank).other += bytes;
    for (int rank = 1; rank < ranks(); ++rank)
      at(0).batch += sequences(rank) * (work_.pass_length + 1) * std::int64_t{sizeof(std::int64_t)};
    if (work_.trains) count_sums_of_matrices(manifest);
  }

  std::vector<StepTraffic> done() { return std::move(ranks_); }

 private:
  [[nodiscard]] int ranks() const { return plan_.dims().ranks(); }
  [[nodiscard]] int member(int rank) const { return plan_.dims().member(rank); }
  [[nodiscard]] StepTraffic& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::int64_t sequences(int rank) const {
    return equal_part(work_.batch_sequences, ranks(), rank).count();
  }
  [[nodiscard]] std::int64_t tokens(int rank) const { return sequences(rank) * work_.pass_length; }

  /// Bytes of a rank's own shard of a unit, as numbers or as codes.
  [[nodiscard]] std::int64_t own_bytes(int unit, int rank) const {
    if (plan_.is_stored(unit))
      return stored_[static_cast<std::size_t>(unit)][static_cast<std::size_t>(rank)].all();
    return plan_.owned(unit, rank).count() * size_of(work_.dtype);
  }

  /// Bytes of one element of a gradient on its way.
  [[nodiscard]] std::int64_t gradient_bytes() const { return size_of(plan_.dims().wire.gradients); }

  /// Purpose of a unit's gradients.
  [[nodiscard]] std::int64_t StepTraffic::*gradients_of(int unit) const {
    const auto is_of = [&](const Stage& stage) { return std::ranges::count(stage.units, unit) > 0; };
    if (is_of(stages_.embed) || is_of(stages_.head)) return &StepTraffic::vocabulary;
    return plan_.has_experts(unit) ? &StepTraffic::expert_gradients : &StepTraffic::dense_gradients;
  }

  void count_gathers(int unit, int times, std::int64_t StepTraffic::*purpose) {
    if (plan_.is_kept(unit) || plan_.is_by_rows(unit)) return;
    for (int rank = 0; rank < ranks(); ++rank)
      at(rank).*purpose += times * own_bytes(unit, member(rank)) * (plan_.sharers(unit) - 1);
  }

  /// Each rank sends the gradients of all shards but its own.
  void count_reductions(int unit) {
    if (!plan_.is_trained(unit) || !plan_.is_gathered(unit)) return;
    const auto purpose = gradients_of(unit);
    for (int rank = 0; rank < ranks(); ++rank)
      at(rank).*purpose +=
          backward_passes_ * gradient_bytes() *
          (plan_.gathered_range(unit, member(rank)).count() - plan_.owned(unit, member(rank)).count());
  }

  [[nodiscard]] double distinct(int rank) const { return distinct_tokens(tokens(rank), model_.vocab_size); }
  /// Rows that the ranks of a set need, each counted by itself.
  [[nodiscard]] double distinct_of_set(int first) const {
    double rows = 0;
    for (int rank = first; rank < first + plan_.world(); ++rank) rows += distinct(rank);
    return rows;
  }

  /// Whether the embedding travels by rows in each set, as RowExchange::fits() decides it.
  [[nodiscard]] bool rows_fit() const {
    return distinct(0) + distinct_of_set(0) <= static_cast<double>(model_.vocab_size);
  }

  /// Lists of the rows that each rank of a set needs, the rows, and their gradients.
  void count_rows(int unit, int first) {
    const int others = plan_.world() - 1;
    const std::vector<std::int64_t> counts = plan_.counts(unit, 0);
    const auto whole = static_cast<double>(sum(counts));
    const double of_all = distinct_of_set(first);
    for (int rank = first; rank < first + plan_.world(); ++rank) {
      const double share = static_cast<double>(counts[static_cast<std::size_t>(member(rank))]) / whole;
      const double of_others = (of_all - distinct(rank)) * share;
      const double by_others = distinct(rank) * (1 - share);
      const auto width = static_cast<double>(model_.hidden_size);
      double bytes = (distinct(rank) + 1) * static_cast<double>(others * kNumberBytes) +
                     of_others * width * static_cast<double>(size_of(work_.dtype));
      if (plan_.is_trained(unit))
        bytes += backward_passes_ * by_others * width * static_cast<double>(gradient_bytes());
      at(rank).vocabulary += part_of(bytes);
    }
  }

  /// What passes between the ranks of a set that have the head between them, `first` the first of them: hidden states,
  /// numbers about each token, and gradients of hidden states. `low_rank`: rank of the head's adapter.
  void count_shared_head(int first, std::int64_t low_rank) {
    const std::int64_t others = plan_.world() - 1, width = model_.hidden_size + low_rank;
    const std::int64_t size = size_of(work_.dtype);
    const std::int64_t loss_passes = (work_.has_reference ? 1 : 0) + (work_.trains ? 0 : 1);
    const std::int64_t gradient_passes = backward_passes_, passes = loss_passes + gradient_passes;
    const std::int64_t taught = work_.trains ? work_.distribution_tokens : 0;
    const std::int64_t found = work_.trains ? 0 : work_.distribution_tokens;
    std::int64_t of_set = 0, rounds = 0;
    for (int rank = first; rank < first + plan_.world(); ++rank) {
      of_set += tokens(rank);
      rounds = std::max(rounds, divide_up(sequences(rank), work_.micro_batch_sequences));
    }
    // Tokens of each rank once for the set and once for each call of the head, and widths of a teacher's rows.
    const std::int64_t counts = sum_bytes(1, plan_.world()) + passes * rounds * others * kNumberBytes +
                                (taught > 0 ? gradient_passes * rounds * sum_bytes(1, plan_.world()) : 0);
    // Largest logit, sum and target's logit; a teacher's logits and the same two of all others; tokens found.
    const std::int64_t sums = 3 * kNumberBytes;
    const std::int64_t of_teacher = taught > 0 ? (taught + 2) * kNumberBytes : 0;
    const std::int64_t of_top = found > 0 ? 2 * (found + 1) * kNumberBytes : 0;
    // Six sums of each rank and the token's place, which all ranks get; tokens drawn.
    const std::int64_t of_draws = 6 * kNumberBytes + found * std::int64_t{sizeof(std::int32_t)};
    const std::int64_t known = work_.draws_distribution ? (6 * plan_.world() + 1) * kNumberBytes : 0;
    const std::int64_t of_found = work_.draws_distribution ? of_draws : of_top;
    const std::int64_t teacher = taught > 0 ? (2 * taught + 1) * kFloatBytes : 0;
    for (int rank = first; rank < first + plan_.world(); ++rank) {
      const std::int64_t own = tokens(rank), of_others = of_set - own;
      at(rank).vocabulary +=
          counts + passes * (own * others * (width * size + kNumberBytes + sums) + of_others * sums) +
          gradient_passes * (own * others * (kNumberBytes + teacher + of_teacher) +
                             of_others * (width * gradient_bytes() + of_teacher)) +
          loss_passes * (of_others * of_found + own * others * known);
    }
  }

  /// Rank of the adapter of the head; 0 without one.
  [[nodiscard]] static std::int64_t head_rank(const ParameterManifest& manifest) {
    for (const TensorInfo& tensor : manifest.tensors())
      if (tensor.role == Role::kHead && !tensor.adapts.empty() && tensor.initial != InitialValues::kZeros)
        return tensor.shape.front();
    return 0;
  }

  /// Share of the tokens of a MoE layer that are sent to each place of the group.
  [[nodiscard]] std::vector<double> shares_of_tokens(const ExpertShares& shares, int layer) const {
    const std::int64_t places = plan_.dims().expert_parallel, k = model_.experts_per_token;
    std::vector<double> of_places(static_cast<std::size_t>(places), 1.0);
    for (std::int64_t place = 0; places > kGatheringRanks && place < places; ++place) {
      const Range own = equal_part(model_.experts, places, place);
      double& share = of_places[static_cast<std::size_t>(place)];
      if (shares.empty()) {
        share = share_of_even_tokens(model_.experts, own.count(), k);
        continue;
      }
      const std::vector<double>& of_layer = shares[static_cast<std::size_t>(layer)];
      const double chosen = std::accumulate(of_layer.begin() + own.begin, of_layer.begin() + own.end, 0.0);
      share = 1 - std::pow(1 - std::min(chosen, 1.0), static_cast<double>(k));
    }
    return of_places;
  }

  /// Counts what ranks send for one MoE layer; `shares`: shares_of_tokens().
  void count_tokens_of_layer(const std::vector<double>& shares, int backward_passes) {
    const ParallelDims& dims = plan_.dims();
    const auto state = static_cast<double>(model_.expert_hidden_size() * size_of(work_.dtype));
    const auto sent_state = dims.wire.tokens == TokenFormat::kInt8
                                ? static_cast<double>(TokenRows(model_.expert_hidden_size()).bytes())
                                : state;
    const auto choices = static_cast<double>(model_.experts_per_token * kFloatBytes);
    const int forward_passes = work_.has_reference ? 2 : 1;
    const double sent_out =
        forward_passes * (sent_state + 2 * choices) + backward_passes * (2 * sent_state + 2 * choices);
    const double sent_back = forward_passes * state + backward_passes * (state + choices);
    const double all_places = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (int first = 0; first < ranks(); first += dims.expert_parallel) {
      const int end = first + dims.expert_parallel;
      std::int64_t of_group = 0;
      for (int rank = first; rank < end; ++rank) of_group += tokens(rank);
      for (int rank = first; rank < end; ++rank) {
        const double own = shares[static_cast<std::size_t>(dims.place(rank))];
        at(rank).tokens += part_of(static_cast<double>(tokens(rank)) * (all_places - own) * sent_out +
                                   static_cast<double>(of_group - tokens(rank)) * own * sent_back);
      }
    }
  }

  /// Sums over the matrices of units that ranks share: for Adafactor squares, rows and columns, and squares of the
  /// update; for a norm of each matrix its squares.
  void count_sums_of_matrices(const ParameterManifest& manifest) {
    const bool is_factored = work_.optimizer.state == StateFormat::kFactored;
    const bool clips_matrices = work_.optimizer.clip == ClipRule::kUnit;
    if (!is_factored && !clips_matrices) return;
    const OptimizerLayout layout(manifest, plan_, 0, work_.optimizer, work_.dtype);
    for (int unit = 0; unit < layout.units(); ++unit) {
      if (!plan_.is_trained(unit) || plan_.sharers(unit) == 1) continue;
      std::int64_t numbers = 0;
      for (const MatrixState& matrix : layout.matrices(unit)) {
        if (clips_matrices) ++numbers;
        if (is_factored) numbers += 3 + (matrix.shape.is_vector() ? 0 : matrix.shape.columns);
      }
      for (int rank = 0; rank < ranks(); ++rank) at(rank).other += sum_bytes(numbers, plan_.sharers(unit));
    }
  }

  const ModelConfig& model_;
  const ShardPlan& plan_;
  const StagePlan& stages_;
  const Workload& work_;
  std::vector<std::vector<StoredBytes>> stored_;
  int backward_passes_;
  int lowest_layer_;  ///< the lowest layer that backward reaches; -1: the embedding
  std::vector<StepTraffic> ranks_;
};

}  // namespace

std::int64_t StepTraffic::all() const {
  const auto named = parts();
  return std::accumulate(named.begin(), named.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& part) { return sum + part.second; });
}

std::array<std::pair<std::string_view, std::int64_t>, 8> StepTraffic::parts() const {
  return {{{"dense_weights", dense_weights},
           {"dense_gradients", dense_gradients},
           {"vocabulary", vocabulary},
           {"expert_weights", expert_weights},
           {"expert_gradients", expert_gradients},
           {"tokens", tokens},
           {"batch", batch},
           {"other", other}}};
}

std::int64_t vocabulary_traffic(const ModelConfig& model, const ParameterManifest& manifest,
                                const ShardPlan& plan, const StagePlan& stages, const Workload& work) {
  std::int64_t bytes = 0;
  if (!work.answers || work.trains) {
    TrafficCount count(model, plan, stages, work, {});
    count.count_vocabulary(manifest);
    const std::vector<StepTraffic> ranks = count.done();
    for (const StepTraffic& rank : std::span(ranks).first(static_cast<std::size_t>(plan.world())))
      bytes += rank.vocabulary;
    return bytes;
  }
  const std::int64_t others = plan.world() - 1;
  if (!plan.is_by_rows(stages.embed.units.front())) {
    for (const int unit : stages.head.units)
      if (plan.is_gathered(unit) && !plan.is_kept(unit))
        bytes += plan.gathered_range(unit, 0).count() * size_of(work.dtype) * others;
    return bytes;
  }
  const std::int64_t of_state = model.hidden_size * size_of(work.dtype);
  const std::int64_t of_logits = model.vocab_size * kFloatBytes / plan.world();
  return work.answers->sequences * others * (of_state + of_logits);
}

std::vector<StepTraffic> plan_step_traffic(const ModelConfig& model, const ParameterManifest& manifest,
                                           const ShardPlan& plan, const StagePlan& stages,
                                           const Workload& work, const StoredTensors& stored,
                                           const ExpertShares& shares) {
  const bool answers_only = work.answers && !work.trains;
  if (!work.computes || answers_only || plan.dims().ranks() == 1)
    return std::vector<StepTraffic>(static_cast<std::size_t>(plan.dims().ranks()));
  TrafficCount count(model, plan, stages, work, stored);
  count.count_layers();
  count.count_vocabulary(manifest);
  count.count_tokens(shares);
  count.count_sums_over_sets();
  count.count_rest(manifest);
  return count.done();
}

}  // namespace sluice
