#include "pair_reference.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/text.hpp"
#include "comm/long_work.hpp"
#include "comm/outcome.hpp"
#include "comm/root_exchange.hpp"
#include "comm/run_together.hpp"
#include "data/score_file.hpp"
#include "io/path.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/prepare/score_key.hpp"
#include "process/console.hpp"
#include "score_batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "reference";

/// Score of a document of a token file.
struct ScoredAnswer {
  std::int64_t source = 0, document = 0;
  DocumentScore score;
};

/// Scores of both answers of each pair of a rank's share of a batch.
std::vector<ScoredAnswer> answers_of(const Batch& share, const TokenScores& scores) {
  std::vector<ScoredAnswer> answers;
  const auto add = [&](const PreferencePair& pair, std::int64_t document, const Range& targets) {
    ScoredAnswer& answer = answers.emplace_back(ScoredAnswer{pair.source, document, {}});
    for (std::int64_t target = targets.begin; target < targets.end; ++target) {
      if (share.marks[static_cast<std::size_t>(pair.sequence * (share.length + 1) + target + 1)] !=
          TokenMark::kInside)
        continue;
      const auto place = static_cast<std::size_t>(pair.sequence * share.length + target);
      answer.score.add(-scores.losses[place], scores.greedy[place] != 0);
    }
  };
  for (const PreferencePair& pair : share.pairs) {
    add(pair, pair.chosen_document, pair.chosen);
    add(pair, pair.rejected_document, pair.rejected);
  }
  return answers;
}

/// The files of scores that a part is written to, and the documents that they lack, on rank 0.
class MissingScores {
 public:
  MissingScores(const JobContext& context, SourceFiles& tokens, const std::vector<fs::path>& paths,
                const std::function<void()>& tell) {
    std::vector<std::string> digests;  // of the token files of files_, in their order
    for (std::size_t source = 0; source < paths.size(); ++source) {
      ScoreKey key = score_key(context.config(), context.blueprint.model, tokens.file(source), tell);
      const auto same = std::ranges::find(digests, key.tokens_digest);
      file_of_.push_back(static_cast<std::size_t>(same - digests.begin()));
      if (same == digests.end()) {
        make_directories(paths[source].parent_path());
        files_.push_back({ScoreWriter(paths[source], key, "prefer.reference"),
                          std::vector<bool>(static_cast<std::size_t>(
                              tokens.file(source).packable_documents().documents()))});
        digests.push_back(key.tokens_digest);
        bytes_ += score_bytes(key.documents, key.tokens, {});
      }
      File& file = files_[file_of_.back()];
      const auto want = [&](std::int64_t document) {
        if (file.lacks[static_cast<std::size_t>(document)] || file.scores.has(document)) return;
        file.lacks[static_cast<std::size_t>(document)] = true;
        ++missing_;
      };
      tokens.visit_pairs(
          source,
          [&](const PackedPair& pair) {
            const DocumentPair& documents = tokens.file(source).pair(pair.number);
            want(documents.chosen);
            want(documents.rejected);
          },
          tell);
    }
  }

  [[nodiscard]] std::int64_t count() const { return missing_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  /// Whether the files lack a document of these pairs.
  [[nodiscard]] bool lack(const std::vector<PreferencePair>& pairs) const {
    return std::ranges::any_of(pairs, [&](const PreferencePair& pair) {
      return lacks(pair.source, pair.chosen_document) || lacks(pair.source, pair.rejected_document);
    });
  }

  void add(const std::vector<ScoredAnswer>& answers) {
    for (const ScoredAnswer& answer : answers) {
      if (!lacks(answer.source, answer.document)) continue;
      File& file = files_[file_of_[static_cast<std::size_t>(answer.source)]];
      file.scores.write(answer.document, answer.score, {}, {});
      file.lacks[static_cast<std::size_t>(answer.document)] = false;
      --missing_;
    }
    for (File& file : files_) file.scores.commit(file.scores.sequences_done());
  }

  void finish() {
    for (File& file : files_) file.scores.finish();
  }

 private:
  struct File {
    ScoreWriter scores;
    std::vector<bool> lacks;  ///< whether a document has yet to be scored
  };
  [[nodiscard]] bool lacks(std::int64_t source, std::int64_t document) const {
    return files_[file_of_[static_cast<std::size_t>(source)]].lacks[static_cast<std::size_t>(document)];
  }

  std::deque<File> files_;
  std::vector<std::size_t> file_of_;  ///< index in files_ of each source; sources of equal tokens share one
  std::int64_t missing_ = 0;          ///< documents that have yet to be scored
  std::int64_t bytes_ = 0;
};

}  // namespace

PairReference::PairReference(JobContext& context, BatchSource& batches, HeldOut& held_out)
    : context_(context) {
  const JobConfig& config = context.config();
  const PreferSettings& prefer = config.prefer;
  if (config.job.kind != JobKind::kPrefer) return;
  if (!prefer.refers_to(PreferenceReference::kScores) && !prefer.refers_to(PreferenceReference::kStart))
    return;
  parts_.push_back({&batches, config.train.steps, /*is_held_out=*/false});
  for (BatchSource& tokens : held_out.sources())
    parts_.push_back({&tokens, tokens.batches_in_order(config.train.batch_sequences), /*is_held_out=*/true});
  const ModelDescription& model = context.blueprint.model;
  if (prefer.refers_to(PreferenceReference::kScores)) {
    for (Part& part : parts_) part.tokens->take_reference(reference_options(model, prefer.reference.files));
    return;
  }
  for (std::size_t number = 0; number < parts_.size(); ++number) {
    Part& part = parts_[number];
    for (std::size_t source = 0; source < part.tokens->facts().size(); ++source)
      part.files.push_back(fs::path(kFolder) / (part.is_held_out ? fmt::format("held-out-{}.h5", number - 1)
                                                                 : fmt::format("data-{}.h5", source)));
    run_on_root(context.comm, [&] {
      for (fs::path& file : part.files) file = context.directory.new_file(file);
    });
    // Fails on all ranks alike, as for files that are not there.
    part.is_missing =
        outcome_of([&] { part.tokens->take_reference(reference_options(model, part.files)); }).failed();
  }
}

bool PairReference::is_missing() const { return std::ranges::any_of(parts_, &Part::is_missing); }

bool PairReference::make(ShardArena& weights) {
  for (Part& part : parts_) {
    if (!part.is_missing) continue;
    if (!make(part, weights)) return false;
    part.tokens->take_reference(reference_options(context_.blueprint.model, part.files));
    part.is_missing = false;
  }
  return true;
}

/// Collective over the context's communicator. This rank's share of a batch, of those that training or evaluation
/// reads.
Batch PairReference::read(const Part& part, std::int64_t number) const {
  if (!part.is_held_out) return part.tokens->batch(number);
  return part.tokens->batch_in_order(number, context_.config().train.batch_sequences);
}

bool PairReference::make(const Part& part, ShardArena& weights) {
  Communicator& comm = context_.comm;
  const Stopwatch watch;
  std::optional<MissingScores> missing;  // on rank 0 alone
  run_long_on_root(comm, [&](const std::function<void()>& tell) {
    missing.emplace(context_, *part.tokens->files(), part.files, tell);
    console::line("reference {} to score with the weights that the job starts from, {} in {}",
                  counted(missing->count(), "answer"), format_bytes(missing->bytes()),
                  part.files.front().parent_path().string());
  });
  const std::int64_t all = missing ? missing->count() : 0;
  const auto score = [&](std::int64_t, const Batch& share, Evaluator& evaluator) {
    const std::vector<PreferencePair> pairs = gather_to_root(comm, std::span(share.pairs));
    std::int64_t is_needed = missing && missing->lack(pairs) ? 1 : 0;
    comm.all_reduce_max(std::span(&is_needed, 1));
    if (is_needed == 0) return true;
    const std::vector<ScoredAnswer> own = answers_of(share, evaluator.scores(share));
    const std::vector<ScoredAnswer> answers = gather_to_root(comm, std::span(own));
    run_on_root(comm, [&] {
      fault_point("score.commit", comm.rank());
      missing->add(answers);
    });
    std::int64_t left = missing ? missing->count() : 0;
    comm.all_reduce_max(std::span(&left, 1));
    return left > 0;
  };
  const ScoredBatches batches{.begin = 0,
                              .end = part.batches,
                              .read = [&](std::int64_t number) { return read(part, number); },
                              .score = score};
  if (!score_batches(context_, weights, batches)) return false;
  run_on_root(comm, [&] {
    missing->finish();
    console::line("reference {} scored in {:.2f} s", counted(all, "answer"), watch.seconds());
  });
  return true;
}

}  // namespace sluice
