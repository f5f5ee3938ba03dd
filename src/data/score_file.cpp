#include "data/score_file.hpp"

#include "base/error.hpp"
#include "data/token_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <type_traits>

namespace sluice {
namespace {

namespace fs = std::filesystem;

const Cause kBroken{ExitCode::kBadData, "data.score_file"};
constexpr std::int64_t kFormatVersion = 1;
constexpr const char* kLogProb = "/documents/log_prob";
constexpr const char* kTargets = "/documents/targets";
constexpr const char* kGreedy = "/documents/greedy";
constexpr const char* kTokens = "/tokens/log_prob";
constexpr const char* kIds = "/distributions/ids";
constexpr const char* kLogProbs = "/distributions/log_probs";
constexpr const char* kCounts = "/distributions/counts";
constexpr const char* kRest = "/distributions/rest";
constexpr const char* kScored = "/distributions/tokens";

const char* values_name(const ScoreKey& key) { return key.is_top() ? kLogProbs : kCounts; }

/// Calls `visit` with the name and the value of each attribute of a key.
template <class Key, class Visit>
void for_each_attribute(Key& key, const Visit& visit) {
  visit("tokens_digest", key.tokens_digest);
  visit("model_digest", key.model_digest);
  visit("adapter_digest", key.adapter_digest);
  visit("structure_hash", key.structure_hash);
  visit("long_documents", key.long_documents);
  visit("vocab_size", key.vocab_size);
  visit("sequence_length", key.sequence_length);
  visit("batch_sequences", key.batch_sequences);
  visit("pack_window", key.pack_window);
  visit("documents", key.documents);
  visit("tokens", key.tokens);
  visit("distribution", key.distribution);
  visit("distribution_tokens", key.distribution_tokens);
  visit("distribution_seed", key.distribution_seed);
  visit("temperature", key.temperature);
}

template <hdf5::Element T = std::int64_t>
T number_at(const hdf5::File& file, const char* name) {
  const std::vector<T> values = file.attribute<T>("/", name);
  if (values.size() != 1)
    fail(kBroken, "{}: the attribute '{}' has {} values, expected one", file.name(), name, values.size());
  return values.front();
}

hdf5::Dataset dataset_of(const hdf5::File& file, const char* name, const std::vector<std::int64_t>& shape) {
  hdf5::Dataset dataset = file.dataset(name);
  if (dataset.shape() != shape || !dataset.unreadable_reason().empty())
    fail(kBroken, "{}: the dataset {} is not whole, expected {} numbers. Was the file cut short?",
         file.name(), name, fmt::join(shape, " x "));
  return dataset;
}

DocumentDatasets documents_of(const hdf5::File& file, const ScoreKey& key) {
  const std::vector<std::int64_t> shape{key.documents};
  return {dataset_of(file, kLogProb, shape), dataset_of(file, kTargets, shape),
          dataset_of(file, kGreedy, shape)};
}

std::optional<DistributionDatasets> distributions_of(const hdf5::File& file, const ScoreKey& key) {
  if (key.distribution_tokens == 0) return std::nullopt;
  const std::vector<std::int64_t> shape{key.tokens, key.distribution_tokens};
  DistributionDatasets datasets{
      dataset_of(file, kIds, shape), dataset_of(file, values_name(key), shape), {}, {}};
  if (key.is_top()) datasets.rest.emplace(dataset_of(file, kRest, {key.tokens}));
  if (file.exists(kScored)) datasets.tokens.emplace(dataset_of(file, kScored, {key.tokens}));
  return datasets;
}

ScoreKey key_in(const hdf5::File& file) {
  const std::int64_t version =
      file.has_attribute("/", "format_version") ? number_at(file, "format_version") : 0;
  if (version != kFormatVersion || !file.exists(kLogProb))
    fail(kBroken, "{}: is no file of scores, expected one that job.kind = \"score\" wrote", file.name());
  ScoreKey key;
  for_each_attribute(key, [&](const char* name, auto& value) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, std::string>)
      value = file.text_attribute("/", name);
    else
      value = number_at<std::remove_reference_t<decltype(value)>>(file, name);
  });
  key.has_tokens = file.exists(kTokens);
  if (file.has_attribute("/", kTokenizerAttribute))
    key.tokenizer_digest = file.text_attribute("/", kTokenizerAttribute);
  return key;
}

/// The file under a name of its own until it is whole.
fs::path unfinished_name(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.new", path.filename().string());
}

/// Fills a new dataset [rows], or [rows, width] with a width above 0, with one value, some rows at a time.
template <class T>
void create_filled(hdf5::File& file, const char* name, DType dtype, std::int64_t rows, T value,
                   std::int64_t width = 0) {
  const std::int64_t of_row = std::max<std::int64_t>(1, width),
                     at_once = (std::int64_t{1} << 20) / of_row + 1;
  hdf5::Dataset dataset =
      file.create_dataset(name, dtype, width > 0 ? std::vector{rows, width} : std::vector{rows});
  const std::vector<T> values(static_cast<std::size_t>(std::min(at_once, rows) * of_row), value);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t some = std::min(at_once, rows - first);
    hdf5::Hyperslab box{{first}, {some}};
    if (width > 0) box = {{first, 0}, {some, width}};
    dataset.write<T>(box, std::span(values).first(static_cast<std::size_t>(some * of_row)));
  }
}

void create_distributions(hdf5::File& file, const ScoreKey& key) {
  const std::int64_t width = key.distribution_tokens;
  if (width == 0) return;
  file.create_group("/distributions");
  create_filled(file, kScored, DType::kInt32, key.tokens, std::int32_t{-1});
  create_filled(file, kIds, DType::kInt32, key.tokens, std::int32_t{-1}, width);
  if (!key.is_top()) return create_filled(file, kCounts, DType::kUInt8, key.tokens, std::int32_t{0}, width);
  create_filled(file, kLogProbs, DType::kFloat32, key.tokens, std::numeric_limits<float>::quiet_NaN(), width);
  create_filled(file, kRest, DType::kFloat32, key.tokens, std::numeric_limits<float>::quiet_NaN());
}

void create(const fs::path& path, const ScoreKey& key) {
  const fs::path unfinished = unfinished_name(path);
  std::error_code error;
  fs::remove(unfinished, error);
  hdf5::File file = hdf5::File::create(unfinished, path.string());
  file.set_attribute("/", "format_version", kFormatVersion);
  for_each_attribute(key, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>)
      file.set_attribute("/", name, std::span(&value, 1));
    else
      file.set_attribute("/", name, value);
  });
  file.set_attribute("/", kTokenizerAttribute, key.tokenizer_digest);
  file.set_attribute("/", "sequences_done", std::int64_t{0});
  file.set_attribute("/", "complete", std::int64_t{0});
  for (const char* group : {"/documents", "/tokens"}) file.create_group(group);
  create_filled(file, kLogProb, DType::kFloat64, key.documents, std::numeric_limits<double>::quiet_NaN());
  for (const char* name : {kTargets, kGreedy})
    create_filled(file, name, DType::kInt64, key.documents, std::int64_t{-1});
  if (key.has_tokens)
    create_filled(file, kTokens, DType::kFloat32, key.tokens, std::numeric_limits<float>::quiet_NaN());
  create_distributions(file, key);
  file.close();
  fs::rename(unfinished, path, error);
  if (error)
    fail(ExitCode::kIo, "cannot rename {} to {}: {}", unfinished.string(), path.string(), error.message());
}

void require_same_key(const hdf5::File& file, const ScoreKey& wanted, std::string_view setting) {
  std::vector<std::string> differences;
  const ScoreKey found = key_in(file);
  for_each_attribute(found, [&](const char* name, const auto& value) {
    for_each_attribute(wanted, [&](const char* other, const auto& expected) {
      if constexpr (std::is_same_v<decltype(value), decltype(expected)>)
        if (std::string_view(name) == other && value != expected)
          differences.push_back(fmt::format("{} is '{}', expected '{}'", name, value, expected));
    });
  });
  if (found.has_tokens != wanted.has_tokens)
    differences.push_back(wanted.has_tokens
                              ? "has no log-probabilities of tokens, expected them (score.tokens)"
                              : "has log-probabilities of tokens, expected none (score.tokens)");
  if (!differences.empty())
    fail({ExitCode::kBadConfig, "job.output_taken"},
         "{}: {} is left from another job: {}; name another file, or set job.overwrite = true to replace it",
         setting, file.name(), differences.front());
}

hdf5::File begin_or_go_on(const fs::path& path, const ScoreKey& key, std::string_view setting) {
  if (!fs::exists(path)) create(path, key);
  require_same_scores(path, key, setting);
  return hdf5::File::open_to_change(path);
}

/// Rows of a run of tokens in a dataset [tokens, width].
hdf5::Hyperslab rows_of(const TokenRange& run, std::int64_t width) {
  return {{run.first, 0}, {run.count, width}};
}

/// Turns the log-probabilities, or counts, of the tokens of one row into probabilities; their sum, or NaN if they
/// are none.
double to_probabilities(std::span<const std::int32_t> ids, std::span<float> values, std::int64_t vocab_size,
                        bool are_counts) {
  double sum = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) {
      values[i] = 0;
      continue;
    }
    const bool is_number = are_counts ? values[i] >= 1 : values[i] <= 0;
    if (ids[i] >= vocab_size || !is_number) return std::numeric_limits<double>::quiet_NaN();
    values[i] = are_counts ? values[i] / static_cast<float>(ids.size()) : std::exp(values[i]);
    sum += values[i];
  }
  return sum;
}

}  // namespace

DocumentScore DocumentDatasets::read(std::int64_t document) const {
  const hdf5::Hyperslab place{{document}, {1}};
  DocumentScore score;
  log_prob.read<double>(place, {&score.log_prob, 1});
  targets.read<std::int64_t>(place, {&score.targets, 1});
  greedy.read<std::int64_t>(place, {&score.greedy, 1});
  return score;
}

void require_same_scores(const fs::path& path, const ScoreKey& key, std::string_view setting) {
  if (fs::exists(path)) require_same_key(hdf5::File::open(path), key, setting);
}

std::int64_t token_score_bytes(const ScoreSettings& settings) {
  std::int64_t bytes = settings.tokens ? 4 : 0;
  if (settings.distribution != ScoreDistribution::kNone) bytes += 4;  // the token itself
  if (settings.distribution == ScoreDistribution::kSampled) bytes += 5 * settings.samples;
  if (settings.distribution == ScoreDistribution::kTop) bytes += 8 * settings.top + 4;
  return bytes;
}

ScoreFile ScoreFile::open(const fs::path& path) {
  hdf5::File file = hdf5::File::open(path);
  ScoreKey key = key_in(file);
  if (number_at(file, "complete") != 1)
    fail(kBroken, "{}: the scores are not complete; the job that writes them goes on when it is run again",
         file.name());
  return {std::move(file), std::move(key)};
}

ScoreFile::ScoreFile(hdf5::File file, ScoreKey key)
    : file_(std::move(file)), key_(std::move(key)), documents_(documents_of(file_, key_)) {
  if (key_.has_tokens) tokens_.emplace(dataset_of(file_, kTokens, {key_.tokens}));
  distributions_ = distributions_of(file_, key_);
}

DocumentScore ScoreFile::document(std::int64_t number) const {
  const DocumentScore score = documents_.read(number);
  if (score.targets >= 0 && !(std::isfinite(score.log_prob) && score.log_prob <= 0))
    fail(kBroken, "{}: the log-probability of document {} is {}, expected a number of at most 0", name(),
         number, score.log_prob);
  return score;
}

std::vector<float> ScoreFile::tokens(const TokenRange& run) const {
  if (!tokens_)
    fail(kBroken, "{}: has no log-probabilities of tokens, expected them; score.tokens = true writes them",
         name());
  std::vector<float> log_probs(static_cast<std::size_t>(run.count));
  tokens_->read<float>({{run.first}, {run.count}}, log_probs);
  return log_probs;
}

std::vector<std::int64_t> ScoreFile::scored_tokens(const TokenRange& run) const {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(run.count), -1);
  if (distributions_ && distributions_->tokens)
    distributions_->tokens->read<std::int64_t>({{run.first}, {run.count}}, ids);
  return ids;
}

TeacherRows ScoreFile::distributions(const TokenRange& run, std::int64_t vocab_size) const {
  if (!distributions_)
    fail(kBroken, "{}: has no distributions, expected them; score.distribution writes them", name());
  const std::int64_t width = key_.distribution_tokens;
  const auto row = static_cast<std::size_t>(width), rows = static_cast<std::size_t>(run.count);
  TeacherRows found{width, std::vector<std::int32_t>(rows * row), std::vector<float>(rows * row),
                    std::vector<float>(rows)};
  distributions_->ids.read<std::int32_t>(rows_of(run, width), found.ids);
  distributions_->values.read<float>(rows_of(run, width), found.weights);
  if (distributions_->rest) distributions_->rest->read<float>({{run.first}, {run.count}}, found.rest);
  for (std::size_t i = 0; i < rows; ++i) {
    constexpr double kRounding = 1e-3;
    const std::span<const std::int32_t> ids = std::span(found.ids).subspan(i * row, row);
    const bool is_there = ids.front() >= 0;
    if (distributions_->rest) found.rest[i] = is_there ? std::exp(found.rest[i]) : 0;
    const double sum =
        to_probabilities(ids, std::span(found.weights).subspan(i * row, row), vocab_size, !key_.is_top());
    if (std::abs(sum + found.rest[i] - (is_there ? 1 : 0)) <= kRounding) continue;
    fail(
        kBroken,
        "{}: what {} hold at token {} is no distribution over a vocabulary of {} tokens. Was the file changed, or "
        "does the teacher have another tokenizer?",
        name(), key_.is_top() ? "ids, log_probs and rest" : "ids and counts",
        run.first + static_cast<std::int64_t>(i), vocab_size);
  }
  return found;
}

ScoreWriter::ScoreWriter(const fs::path& path, const ScoreKey& key, std::string_view setting)
    : file_(begin_or_go_on(path, key, setting)),
      documents_(documents_of(file_, key)),
      sequences_done_(number_at(file_, "sequences_done")),
      is_complete_(number_at(file_, "complete") == 1) {
  if (key.has_tokens) tokens_.emplace(dataset_of(file_, kTokens, {key.tokens}));
  distributions_ = distributions_of(file_, key);
}

bool ScoreWriter::has(std::int64_t document) const {
  const DocumentScore score = documents_->read(document);
  return score.targets >= 0 && score.greedy >= 0 && std::isfinite(score.log_prob);
}

void ScoreWriter::write(std::int64_t document, const DocumentScore& score, const TokenRange& run,
                        std::span<const float> log_probs) {
  const hdf5::Hyperslab place{{document}, {1}};
  documents_->log_prob.write<double>(place, {&score.log_prob, 1});
  documents_->targets.write<std::int64_t>(place, {&score.targets, 1});
  documents_->greedy.write<std::int64_t>(place, {&score.greedy, 1});
  if (tokens_) tokens_->write<float>({{run.first}, {run.count}}, log_probs);
}

void ScoreWriter::write(const TokenRange& run, std::span<const std::int64_t> ids,
                        const TokenDistributions& found) {
  if (!distributions_) return;
  const hdf5::Hyperslab rows = rows_of(run, found.width);
  distributions_->ids.write<std::int32_t>(rows, found.ids);
  distributions_->values.write<float>(rows, found.values);
  if (distributions_->rest) distributions_->rest->write<float>({{run.first}, {run.count}}, found.rest);
  if (distributions_->tokens) distributions_->tokens->write<std::int64_t>({{run.first}, {run.count}}, ids);
}

void ScoreWriter::commit(std::int64_t sequences_done) {
  file_.flush();  // what counts is in the file before it counts
  file_.change_attribute("/", "sequences_done", sequences_done);
  file_.flush();
  sequences_done_ = sequences_done;
}

std::pair<DocumentScore, std::int64_t> ScoreWriter::totals() const {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 16;
  const std::int64_t documents = documents_->log_prob.shape().front();
  std::vector<double> log_probs;
  std::vector<std::int64_t> targets, greedy;
  DocumentScore total;
  std::int64_t scored = 0;
  for (std::int64_t first = 0; first < documents; first += kAtOnce) {
    const hdf5::Hyperslab place{{first}, {std::min(kAtOnce, documents - first)}};
    log_probs.resize(static_cast<std::size_t>(place.count.front()));
    targets.resize(log_probs.size());
    greedy.resize(log_probs.size());
    documents_->log_prob.read<double>(place, log_probs);
    documents_->targets.read<std::int64_t>(place, targets);
    documents_->greedy.read<std::int64_t>(place, greedy);
    for (std::size_t i = 0; i < log_probs.size(); ++i) {
      if (targets[i] < 0) continue;
      total.log_prob += log_probs[i];
      total.targets += targets[i];
      total.greedy += greedy[i];
      ++scored;
    }
  }
  return {total, scored};
}

void ScoreWriter::finish() {
  file_.change_attribute("/", "complete", 1);
  documents_.reset();
  tokens_.reset();
  distributions_.reset();
  file_.close();
}

}  // namespace sluice
