#include "metrics/schema.hpp"

#include "metrics/expert_use.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

template <class Row>
auto scalar(double Row::*member) {
  return [member](const Row& row) -> MetricValues { return std::vector{row.*member}; };
}

template <class Row>
auto scalar(std::int64_t Row::*member) {
  return [member](const Row& row) -> MetricValues { return std::vector{row.*member}; };
}

template <class Row, class T>
auto list(std::vector<T> Row::*member) {
  return [member](const Row& row) -> MetricValues { return row.*member; };
}

void add_phases(const std::vector<std::string>& phases, std::vector<StepColumn>& columns) {
  for (std::size_t i = 0; i < phases.size(); ++i)
    columns.push_back(
        {{"/train/phase_seconds/" + phases[i], DType::kFloat64, "s",
          "Time of the step spent in the phase '" + phases[i] + "', on rank 0"},
         [i](const TrainRow& row) -> MetricValues { return std::vector{row.phase_seconds.at(i)}; }});
}

void add_moe(const MetricsHeader& header, std::vector<StepColumn>& columns) {
  columns.push_back({{"/moe/expert_tokens",
                      DType::kInt64,
                      "tokens",
                      "Tokens that the router sent to each expert [step, MoE layer, expert], over all ranks",
                      {header.moe_layers, header.experts}},
                     list(&TrainRow::expert_tokens)});
  columns.push_back({{"/moe/aux_loss", DType::kFloat64, "1",
                      "Load-balancing loss over all tokens of the step, before its coefficient"},
                     scalar(&TrainRow::aux_loss)});
  columns.push_back(
      {{"/moe/z_loss", DType::kFloat64, "1",
        "Mean over the step's tokens and MoE layers of log(sum(exp(router's logits)))^2, before its "
        "coefficient; NaN without train.router_z_loss"},
       scalar(&TrainRow::z_loss)});
  const auto use = [experts = header.experts](const TrainRow& row) {
    return expert_use(row.expert_tokens, experts);
  };
  columns.push_back(
      {{"/moe/busiest_load", DType::kFloat64, "1",
        "Tokens of the busiest expert over the mean of its layer, in the most uneven MoE layer: 1 is even"},
       [use](const TrainRow& row) -> MetricValues { return std::vector{use(row).busiest}; }});
  columns.push_back({{"/moe/unused_experts", DType::kInt64, "experts",
                      "Experts, of all MoE layers together, that no token of the step was sent to"},
                     [use](const TrainRow& row) -> MetricValues { return std::vector{use(row).unused}; }});
}

void add_held_out(const MetricsHeader& header, std::vector<StepColumn>& columns) {
  columns.push_back(
      {{"/train/held_out_loss",
        DType::kFloat64,
        header.prefers ? "1" : "nat/token",
        header.prefers
            ? "Loss of each file of evaluate.tokens [step, file] after the step, mean over its pairs; NaN where "
              "it was not evaluated"
            : "Mean cross-entropy of each file of evaluate.tokens [step, file] after the step; NaN where it "
              "was not evaluated",
        {header.held_out_files}},
       list(&TrainRow::held_out_loss)});
}

void add_preferences(std::vector<StepColumn>& columns) {
  const auto add = [&](const char* path, const char* units, const char* description,
                       double PreferenceRow::*member) {
    columns.push_back(
        {{path, DType::kFloat64, units, description},
         [member](const TrainRow& row) -> MetricValues { return std::vector{row.preferences.*member}; }});
  };
  add("/rewards/chosen", "nat",
      "Reward of the chosen answer, mean over the step's pairs: prefer.beta times its log-probability less "
      "that under the reference",
      &PreferenceRow::chosen_reward);
  add("/rewards/rejected", "nat", "Reward of the rejected answer, mean over the step's pairs",
      &PreferenceRow::rejected_reward);
  add("/rewards/margins", "nat", "Reward of the chosen answer less that of the rejected one, mean over pairs",
      &PreferenceRow::margin);
  add("/rewards/accuracies", "1", "Share of the step's pairs whose chosen answer has the larger reward",
      &PreferenceRow::accuracy);
  add("/logps/chosen", "nat",
      "Log-probability of the chosen answer behind its prompt, mean over the step's pairs; of a token with "
      "prefer.loss = \"orpo\"",
      &PreferenceRow::chosen_log_prob);
  add("/logps/rejected", "nat", "Log-probability of the rejected answer, likewise",
      &PreferenceRow::rejected_log_prob);
}

void add_distil(std::vector<StepColumn>& columns) {
  const auto add = [&](const char* path, const char* description, double DistilRow::*member) {
    columns.push_back(
        {{path, DType::kFloat64, "nat/token", description},
         [member](const TrainRow& row) -> MetricValues { return std::vector{row.distil.*member}; }});
  };
  add("/train/own_loss", "Mean cross-entropy over all tokens of the step", &DistilRow::own_loss);
  add("/train/teacher_loss",
      "Mean cross-entropy against the teacher's distributions, over the tokens of the step that have one",
      &DistilRow::teacher_loss);
  add("/train/teacher_entropy",
      "Mean entropy of these distributions, all tokens that are not named as one: the least that teacher_loss can be; "
      "NaN if they were drawn",
      &DistilRow::teacher_entropy);
}

/// What /train/loss is.
const char* loss_text(const MetricsHeader& header) {
  if (header.prefers) return "Loss of the step, as [prefer] of job_toml defines it, mean over its pairs";
  if (header.distils) return "Loss of the step, as [distil] of job_toml defines it, mean over all tokens";
  return "Mean cross-entropy over all tokens of the step";
}

void add_epochs(const MetricsHeader& header, std::vector<StepColumn>& columns) {
  columns.push_back(
      {{"/train/epochs",
        DType::kFloat64,
        "epochs",
        "How often each token file was gone through by the end of the step [step, file], in the order of "
        "data.source",
        {header.sources}},
       list(&TrainRow::epochs)});
}

/// Columns of a loss; their paths begin with `prefix`, and their meanings end with what the loss is of.
std::vector<EvaluationColumn> evaluation_columns(const std::string& prefix, const std::string& whose) {
  return {
      {{prefix + "loss", DType::kFloat64, "nat/token",
        "Mean cross-entropy over the predicted tokens of" + whose},
       scalar(&EvaluationRow::loss)},
      {{prefix + "perplexity", DType::kFloat64, "1", "e to the power of the loss of" + whose},
       scalar(&EvaluationRow::perplexity)},
      {{prefix + "tokens", DType::kInt64, "tokens",
        "Predicted tokens, all but a document's first, of" + whose + ". Written after the other columns"},
       scalar(&EvaluationRow::tokens)},
  };
}

}  // namespace

std::vector<StepColumn> step_columns(const MetricsHeader& header) {
  std::vector<StepColumn> columns{
      {{"/train/loss", DType::kFloat64, header.prefers ? "1" : "nat/token", loss_text(header)},
       scalar(&TrainRow::loss)},
      {{"/train/grad_norm", DType::kFloat64, "1", "Euclidean norm of the whole gradient, before clipping"},
       scalar(&TrainRow::grad_norm)},
      {{"/train/learning_rate", DType::kFloat64, "1", "Learning rate of the step's update"},
       scalar(&TrainRow::learning_rate)},
      {{"/train/tokens", DType::kInt64, "tokens", "Tokens of the step, over all ranks"},
       scalar(&TrainRow::tokens)},
      {{"/train/filled", DType::kFloat64, "1",
        "Share of the inputs of the step's sequences that are tokens; packed sequences are filled up with "
        "padding, which counts nowhere"},
       scalar(&TrainRow::filled)},
      {{"/train/step_seconds", DType::kFloat64, "s", "Wall time of the step"},
       scalar(&TrainRow::step_seconds)},
      {{"/train/tokens_per_second", DType::kFloat64, "tokens/s",
        "Tokens of the step, over all ranks, per second"},
       scalar(&TrainRow::tokens_per_second)},
      {{"/train/model_flops_per_second", DType::kFloat64, "FLOP/s",
        "6 for each parameter that a token meets, for the tokens of the step, per second; recomputing not "
        "counted"},
       scalar(&TrainRow::model_flops_per_second)},
      {{"/train/mfu", DType::kFloat64, "1",
        "Model FLOP utilisation: model_flops_per_second over the rate of large matmuls, measured when "
        "training began and summed over ranks"},
       scalar(&TrainRow::mfu)},
      {{"/train/communicated_bytes", DType::kInt64, "B", "Bytes that ranks sent to each other in the step"},
       scalar(&TrainRow::communicated_bytes)},
      {{"/train/left_out", DType::kInt64, "1",
        "1 if the update of the step was left out or undone, for numbers that were not finite, a loss that "
        "was a spike, which [guard] of job_toml defines, or a batch without a target; else 0"},
       scalar(&TrainRow::left_out)},
      {{"/memory/peak_bytes",
        DType::kInt64,
        "B",
        "Peak memory of each rank so far [step, rank]",
        {header.world_size}},
       list(&TrainRow::peak_bytes)},
      {{"/memory/planned_bytes",
        DType::kInt64,
        "B",
        "Memory of each rank while it trains, as planned before anything was allocated [step, rank]",
        {header.world_size}},
       list(&TrainRow::planned_bytes)},
      {{"/memory/peak_growth_bytes",
        DType::kInt64,
        "B",
        "Peak so far of RssAnon + Pss_Shmem of each rank, above what it was before the job began: what is "
        "held against planned_bytes [step, rank]",
        {header.world_size}},
       list(&TrainRow::peak_growth_bytes)},
  };
  add_phases(header.phases, columns);
  if (header.has_gpus)
    columns.push_back(
        {{"/memory/device_peak_bytes",
          DType::kInt64,
          "B",
          "Most memory of each rank's GPU that was taken after a step so far, by whomever [step, rank]",
          {header.world_size}},
         list(&TrainRow::device_peak_bytes)});
  if (header.moe_layers > 0) add_moe(header, columns);
  if (header.prefers) add_preferences(columns);
  if (header.distils) add_distil(columns);
  if (header.sources > 0) add_epochs(header, columns);
  if (header.held_out_files > 0) add_held_out(header, columns);
  columns.push_back({{"/train/step", DType::kInt64, "steps",
                      "Number of the step, from 1. Written after all other columns of its row"},
                     scalar(&TrainRow::step)});
  return columns;
}

std::vector<FormerName> former_names() {
  return {{"/train/product_rate_share", "/train/mfu"}, {"/train/moved_bytes", "/train/communicated_bytes"}};
}

bool is_former_name(const std::string& path) {
  const std::vector<FormerName> names = former_names();
  return std::ranges::find(names, path, &FormerName::path) != names.end();
}

std::vector<LoadColumn> load_columns() {
  return {
      {{"/load/bytes_received", DType::kInt64, "B", "Weight bytes that reached the rank"},
       list(&LoadTable::bytes_received)},
      {{"/load/shard_bytes", DType::kInt64, "B", "Bytes of the rank's own weights"},
       list(&LoadTable::shard_bytes)},
      {{"/load/peak_staging_bytes", DType::kInt64, "B", "Most bytes in staging buffers at a time"},
       list(&LoadTable::peak_staging_bytes)},
      {{"/load/peak_growth_bytes", DType::kInt64, "B",
        "Peak of RssAnon + Pss_Shmem above the baseline taken before any header, plan, staging or arena "
        "memory"},
       list(&LoadTable::peak_growth_bytes)},
      {{"/load/seconds", DType::kFloat64, "s", "Wall time of the load"}, list(&LoadTable::seconds)},
  };
}

std::vector<EvaluationColumn> document_columns() {
  return evaluation_columns("/evaluate/", " each document, in the order of the token file");
}

std::vector<EvaluationColumn> total_columns() {
  return evaluation_columns("/evaluate/total_", " all documents");
}

std::vector<SampleColumn> sample_columns(std::int64_t tokens) {
  const auto ids = [tokens](const SampleRow& row) {
    std::vector<std::int64_t> padded = row.tokens;
    padded.resize(static_cast<std::size_t>(tokens), -1);
    return MetricValues(padded);
  };
  return {
      {{"/samples/prompt", DType::kInt64, "1", "Which of the prompts was answered, from 0"},
       scalar(&SampleRow::prompt)},
      {{"/samples/tokens", DType::kInt64, "1", "Ids of the answer, -1 behind its end", {tokens}}, ids},
      {{"/samples/step", DType::kInt64, "1",
        "Steps that were done when it was answered. Written after the other columns"},
       scalar(&SampleRow::step)},
  };
}

}  // namespace sluice
