#include "job/prepare/start_notes.hpp"

#include "base/teacher_row.hpp"
#include "base/text.hpp"
#include "comm/mpi/single_copy.hpp"
#include "job/prepare/options_of_job.hpp"
#include "manifest/adapter.hpp"
#include "manifest/adapter_targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>

namespace sluice {
namespace {

const char* fate_of(LongDocuments rule) {
  switch (rule) {
    case LongDocuments::kSplit:
      return "split";
    case LongDocuments::kCut:
      return "cut";
    case LongDocuments::kLeaveOut:
      break;
  }
  return "left out";
}

/// Text about packing: "500 documents packed 98.7 % full; longer than a sequence: 3, split". Of pairs it says how
/// many of the longer ones are left out for their prompts.
std::string packing_text(const DataSettings& data, const SourceFacts& source) {
  const std::int64_t inputs = std::max<std::int64_t>(1, source.packed_sequences) * data.sequence_length;
  std::string text =
      fmt::format("{} {} {:.1f} % full", counted(source.documents, source.has_pairs ? "pair" : "document"),
                  source.has_pairs && !data.pack ? "alone in sequences" : "packed",
                  100 * static_cast<double>(source.packed_inputs) / static_cast<double>(inputs));
  if (source.long_documents == 0) return text;
  text +=
      fmt::format("; longer than a sequence: {}, {}", source.long_documents, fate_of(data.long_documents));
  if (source.left_out > 0 && data.long_documents == LongDocuments::kCut)
    text +=
        fmt::format(", and {} of them left out, whose prompts leave no room for answers", source.left_out);
  return text;
}

/// Line about pairs in a training that does not learn from pairs, or "".
std::string both_answers_text(const JobConfig& config, const std::vector<SourceFacts>& facts) {
  if (config.job.kind != JobKind::kTrain || std::ranges::none_of(facts, &SourceFacts::holds_pairs)) return "";
  return "\n          of pairs, of which this job learns both answers, the rejected one as the chosen one: job.kind = "
         "\"prefer\" learns to prefer one to the other, and `sluice tokenize --answer chosen` keeps that one alone";
}

}  // namespace

std::vector<std::string> job_notes(const JobConfig& config, const ModelDescription& described, int world) {
  const ModelConfig& model = described.config;
  std::vector<std::string> notes;
  if (!model.unknown_keys.empty())
    notes.push_back(fmt::format(
        "config.json has keys that this version does not know, and leaves out what they would change: {}",
        join_some(model.unknown_keys, 20)));
  if (is_training(config.job.kind) && model.attention_dropout > 0)
    notes.push_back(
        fmt::format("config.json asks for an attention_dropout of {}, which no training applies here",
                    model.attention_dropout));
  if (!is_training(config.job.kind) && !evaluates_tokens(config.job.kind)) return notes;
  if (is_training(config.job.kind) && !config.checkpoint.saves() && !config.export_.ends_with_export())
    notes.push_back(
        "this job neither saves its state nor exports its weights: what it trains is lost when it ends. "
        "checkpoint.every_minutes, checkpoint.every_steps or export.at_end keep it");
  if (const std::string scarce = scarcely_adapted_text(described.manifest, described.adapters);
      !scarce.empty())
    notes.push_back(fmt::format(
        "adapters change less than half of the parameters of some projections: {}. lora.targets chooses",
        scarce));
  const std::int64_t sequences = config.train.batch_sequences, length = config.data.sequence_length;
  if (sequences < world)
    notes.push_back(fmt::format(
        "train.batch_sequences is {}, so {} of {} ranks compute no sequence of their own in any step",
        sequences, world - sequences, world));
  if (model.max_positions > 0 && length > model.max_positions)
    notes.push_back(
        fmt::format("data.sequence_length is {}, and the model's max_position_embeddings {}: it may not "
                    "have learned later positions",
                    length, model.max_positions));
  return notes;
}

std::vector<std::string> adapter_notes(const JobConfig& config, const ModelDescription& model) {
  const std::vector<std::string>& targets = config.lora.targets;
  if (!is_training(config.job.kind) || model.adapters.empty() || !config.lora.start.empty()) return {};
  std::int64_t adapted = 0, left_out = 0;
  std::string last;
  for (const AdaptableWeight& weight : adaptable_weights(model.manifest)) {
    if (!model.manifest.is_refused_by_peft(weight.info.name)) continue;
    ++(model.adapters.find(weight.info.name) != nullptr ? adapted : left_out);
    last = weight.info.name;
  }
  if (adapted > 0)
    return {fmt::format(
        "lora.targets names {}, such as {}, which PEFT refuses to adapt in a {}: it will not open the adapter, "
        "though a merged export opens everywhere",
        counted(adapted, "weight"), last, model.config.model_type)};
  const auto is_shorthand = [](const std::string& target) {
    return target == kAllLinear || target == kLinearModules;
  };
  if (left_out == 0 || std::ranges::none_of(targets, is_shorthand)) return {};
  return {fmt::format(
      "lora.targets leaves out {}, such as {}, which PEFT refuses to adapt in a {}; a target that names them adapts "
      "them all the same",
      counted(left_out, "weight"), last, model.config.model_type)};
}

std::vector<std::string> launch_notes(int world) {
  const char* text = std::getenv("SLURM_NTASKS");
  const long tasks = text == nullptr ? 1 : std::strtol(text, nullptr, 10);
  if (world > 1 || tasks <= 1) return {};
  return {fmt::format(
      "this is one rank in a Slurm allocation of {} tasks (SLURM_NTASKS): mpirun, or srun with an MPI type "
      "that fits (--mpi=pmix), starts them all",
      tasks)};
}

std::string binding_note(int rank, int cores, int all_cores, int local_ranks) {
  if (cores >= all_cores / local_ranks) return "";
  return fmt::format(
      "rank {} is bound to {} of {} cores; to use its share, add --bind-to none to mpirun's options, or "
      "under Slurm --cpus-per-task",
      rank, cores, all_cores);
}

std::string single_copy_note(bool reads_neighbours, std::string_view library) {
  if (reads_neighbours) return "";
  const std::optional<LibrarySetting> setting = setting_without_single_copy(library);
  if (!setting || is_set_for_library(setting->name)) return "";
  return fmt::format(
      "ranks of one machine may not read each other's memory here, as in many containers, and Open MPI says so of "
      "each large message; {}={} in the environment ends that, or mpirun's --mca {} {}. `sluice launch` sets it by "
      "itself",
      setting->variable(), setting->value, setting->name, setting->value);
}

std::string teacher_text(const DistilSettings& distil, const TeacherFacts& teacher) {
  return fmt::format(
      "{} of each distribution at temperature {:g}, learnt with the weight {:g}; {} bytes a token",
      counted(teacher.width, "token"), teacher.temperature, distil.weight, teacher_row_bytes(teacher.width));
}

std::string data_text(const JobConfig& config, const std::vector<SourceFacts>& facts) {
  std::int64_t sequences = 0;
  for (const SourceFacts& source : facts) sequences += source.sequences;
  const bool marks_documents = std::ranges::any_of(facts, &SourceFacts::marks_documents);
  const bool is_packed = std::ranges::any_of(facts, &SourceFacts::is_packed);
  std::string text = fmt::format("{}{} of {}{}", is_packed ? "about " : "", counted(sequences, "sequence"),
                                 counted(config.data.sequence_length, "token"),
                                 marks_documents ? ", documents kept apart" : "");
  if (!is_training(config.job.kind)) return text;
  const TrainSettings& train = config.train;
  const std::string taken =
      fmt::format("; {} of {}", counted(train.steps, "step"), counted(train.batch_sequences, "sequence"));
  const auto positions = static_cast<double>(train.steps * train.batch_sequences);
  if (facts.size() == 1)
    return text + taken +
           fmt::format(" {} {:.3g} epochs", is_or_are(train.steps),
                       positions / static_cast<double>(sequences)) +
           (is_packed ? "\n          " + packing_text(config.data, facts.front()) : "") +
           both_answers_text(config, facts);
  std::string lines = fmt::format("{} with {}{}", counted(std::ssize(facts), "source"), text, taken);
  const std::vector<std::int64_t> of_source = batch_options(config, 0).taken_in_all(facts);
  for (std::size_t i = 0; i < facts.size(); ++i) {
    lines += fmt::format("\n          {}: {}, {:.3g} % of those taken, {:.3g} epochs",
                         config.data.source[i].tokens.string(), counted(facts[i].sequences, "sequence"),
                         100 * static_cast<double>(of_source[i]) / positions,
                         static_cast<double>(of_source[i]) / static_cast<double>(facts[i].sequences));
    if (is_packed) lines += "; " + packing_text(config.data, facts[i]);
  }
  return lines + both_answers_text(config, facts);
}

}  // namespace sluice
