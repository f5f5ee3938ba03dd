#include "data/source_files.hpp"

#include "base/at_place.hpp"
#include "base/checked.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/round.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

const Cause kTeacher{ExitCode::kBadData, "data.teacher"};
const Cause kOtherScores{ExitCode::kBadData, "data.other_scores"};

/// Tokens of which distributions are read at once for a check.
constexpr std::int64_t kCheckedDistributions = 16384;
/// Most tokens of a piece of the check where each has a distribution, of some hundred bytes.
constexpr std::int64_t kTaughtPieceTokens = std::int64_t{1} << 20;

SourceFacts facts_of(const TokenFile& file, const BatchOptions& options) {
  return {.sequences = file.sequence_count(),
          .documents = options.file.keep_rest && !options.pack ? file.count_documents() : 0,
          .marks_documents = file.marks_documents(),
          .masks_targets = file.masks_targets(),
          .holds_pairs = file.has_pairs()};
}

/// Refuses pairs of another tokenizer than the model's, where both are known.
void require_same_tokenizer(const TokenFile& file, const BatchOptions& options) {
  const std::string found = file.tokenizer_digest();
  if (found.empty() || !options.tokenizer_digest) return;
  const std::string expected = options.tokenizer_digest();
  if (expected.empty() || found == expected) return;
  fail(
      {ExitCode::kBadData, "data.other_tokenizer"},
      "{} was made with a tokenizer of digest {}, expected {}, that of the tokenizer beside the model. Were the pairs "
      "tokenized for another model? `sluice tokenize --pairs` makes them anew",
      file.name(), found, expected);
}

/// Where the ids that a teacher's file was made of differ from those of a token file; "" if nowhere, or if the file
/// does not tell.
std::string first_difference(const ScoreFile& teacher, const TokenFile& file) {
  if (!file.lists_documents()) return "";
  const std::int64_t both = std::min(teacher.key().tokens, file.token_count());
  for (std::int64_t first = 0; first < both; first += kCheckedDistributions) {
    const TokenRange run{first, std::min(kCheckedDistributions, both - first)};
    const std::vector<std::int64_t> scored = teacher.scored_tokens(run);
    std::vector<std::int64_t> ids(scored.size());
    file.read_run(run, ids, {});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (scored[i] < 0 || scored[i] == ids[i]) continue;
      const std::int64_t token = first + static_cast<std::int64_t>(i);
      const std::int64_t document = file.packable_documents().document_at(token);
      const TokenRange of_document = file.packable_documents().runs({&document, 1}).front();
      return fmt::format("token {} of document {} (token {} of the file) is {} there, expected {} as in {}",
                         token - of_document.first, document, token, scored[i], ids[i], file.name());
    }
  }
  if (teacher.key().tokens == file.token_count()) return "";
  return fmt::format("it has {} tokens, expected {} as in {}", teacher.key().tokens, file.token_count(),
                     file.name());
}

/// Packs as many of the first documents as tell how full sequences are.
void measure(const Packer& packer, SourceFacts& facts) {
  constexpr std::int64_t kMostWindows = 16;
  for (std::int64_t number = 0; number < std::min(kMostWindows, packer.windows()); ++number) {
    const PackedWindow window = packer.window(number);
    facts.packed_sequences += window.sequences();
    facts.packed_inputs += window.counts().inputs;
  }
}

void add_packing(const Packer& packer, const BatchOptions& options, SourceFacts& facts) {
  facts.sequences = options.file.keep_rest ? packer.count_sequences() : packer.least_sequences();
  facts.documents = packer.counts().documents;
  facts.is_packed = true;
  facts.has_pairs = options.has_pairs();
  facts.long_documents = packer.counts().long_documents;
  facts.left_out = packer.counts().left_out;
  measure(packer, facts);
}

}  // namespace

TokenFile open_source(const TokenSource& source, const TokenFileOptions& options) {
  return at_place(source.key, [&] { return TokenFile::open(source.tokens, options); });
}

SourceFiles::SourceFiles(const BatchOptions& options) : options_(options) {
  TokenFileOptions file = options.file;
  const DataOrder order = file.keep_rest ? DataOrder::kSequential : options.order;
  if (options.pack) file.keep_rest = true;  // packed files may have any number of tokens
  for (const TokenSource& named : options.sources) {
    OpenSource& source = sources_.emplace_back(OpenSource{open_source(named, file)});
    facts_.push_back(facts_of(source.file, options));
    if (options.has_pairs()) at_place(named.key, [&] { require_same_tokenizer(source.file, options); });
    if (!options.pack) continue;
    source.packer.emplace(source.file, *options.pack, options.file.sequence_length, order,
                          seed_of_source(options.seed, sources_.size() - 1));
    add_packing(*source.packer, options, facts_.back());
  }
  if (!options.teachers.empty()) open_teachers();
  mixture_.emplace(options.mixture(facts_));
  const std::vector<std::int64_t> read = options.taken_in_all(facts_);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    OpenSource& source = sources_[i];
    source.read = read[i];
    const std::int64_t piece_tokens = source.teacher ? kTaughtPieceTokens : kCheckedPieceTokens;
    if (source.packer)
      source.check.emplace<PackedTokenCheck>(source.file, *source.packer, read[i], piece_tokens);
    else
      source.check.emplace<TokenCheck>(mixture_->sampler(i), read[i], options.file.sequence_length,
                                       piece_tokens);
  }
}

/// Finds the source of each teacher's file by the digest of its tokens.
void SourceFiles::open_teachers() {
  std::vector<std::string> digests;
  for (const OpenSource& source : sources_) digests.push_back(source.file.digest().hex());
  for (const std::filesystem::path& path : options_.teachers)
    at_place("distil.teacher", [&] { open_teacher(path, digests); });
}

/// Ends with the first token of a teacher's file that is not that of a source without a teacher, of those the one
/// with as many tokens.
void SourceFiles::refuse_other_tokens(const ScoreFile& teacher,
                                      const std::vector<std::string>& digests) const {
  const OpenSource* compared = &sources_.front();
  for (const OpenSource& source : sources_)
    if (!source.teacher && source.file.token_count() == teacher.key().tokens) compared = &source;
  const std::string difference = first_difference(teacher, compared->file);
  fail(
      kOtherScores,
      "{}: found scores of tokens with the digest {}, expected those of {} with {}{}. Was the text tokenized anew, or "
      "scored as another file?",
      teacher.name(), teacher.key().tokens_digest, sources_.front().file.name(), join_some(digests),
      difference.empty() ? "" : ": " + difference);
}

/// Compares the vocabulary of a teacher with the model's: by their tokenizers, or where one is unknown by size.
void SourceFiles::compare_vocabulary(const ScoreFile& teacher, const TokenFile& tokens) const {
  const ScoreKey& key = teacher.key();
  std::string expected;
  if (!key.tokenizer_digest.empty() && options_.tokenizer_digest) expected = options_.tokenizer_digest();
  if (expected.empty()) expected = tokens.tokenizer_digest();
  if (!key.tokenizer_digest.empty() && !expected.empty()) {
    if (key.tokenizer_digest == expected) return;
    fail(
        kTeacher,
        "{}: found the tokenizer of digest {}, expected {}, that of the model. If both give every token the same id, "
        "score with a copy of the teacher that has the model's tokenizer files",
        teacher.name(), key.tokenizer_digest, expected);
  }
  if (key.vocab_size != options_.file.vocab_size)
    log::warning(
        "{}: the teacher's vocabulary has {} entries, the model's {}; their tokens are taken to be the same",
        teacher.name(), key.vocab_size, options_.file.vocab_size);
}

/// Opens the file of a teacher. Error(kBadData) if it holds no distributions, or those of other tokens or another
/// tokenizer, or at another temperature than others.
void SourceFiles::open_teacher(const std::filesystem::path& path, const std::vector<std::string>& digests) {
  ScoreFile teacher = ScoreFile::open(path);
  const ScoreKey& key = teacher.key();
  if (key.distribution_tokens == 0)
    fail(kTeacher,
         "{}: has no distributions, expected them; job.kind = \"score\" writes them with score.distribution",
         teacher.name());
  const auto found = std::ranges::find(digests, key.tokens_digest);
  if (found == digests.end()) refuse_other_tokens(teacher, digests);
  OpenSource& source = sources_[static_cast<std::size_t>(found - digests.begin())];
  if (source.teacher)
    fail(kTeacher, "{}: found scores of {}, as in {}, expected one file for each token file", teacher.name(),
         source.file.name(), source.teacher->name());
  const double expected = teacher_.width > 0 ? teacher_.temperature : options_.teacher_temperature;
  if (expected != 0 && key.temperature != expected)
    fail(kTeacher, "{}: found distributions at temperature {:g}, expected {:g}{}; score.temperature sets it",
         teacher.name(), key.temperature, expected,
         teacher_.width > 0 ? " as in the first file" : ", which is distil.temperature");
  compare_vocabulary(teacher, source.file);
  teacher_ = {std::max(teacher_.width, key.distribution_tokens), key.temperature,
              teacher_.is_exact && key.is_top()};
  source.teacher.emplace(std::move(teacher));
}

std::int64_t SourceFiles::pieces_of(const OpenSource& source) {
  if (const auto* packed = std::get_if<PackedTokenCheck>(&source.check)) return packed->pieces();
  return std::get<TokenCheck>(source.check).pieces();
}

bool SourceFiles::has_target(const OpenSource& source) {
  if (const auto* packed = std::get_if<PackedTokenCheck>(&source.check)) return packed->has_target();
  return std::get<TokenCheck>(source.check).has_target();
}

std::int64_t SourceFiles::check_pieces() const {
  std::int64_t pieces = 1;  // the last piece, in which the findings of all pieces are judged
  for (const OpenSource& source : sources_) pieces += pieces_of(source);
  return pieces;
}

void SourceFiles::check(std::int64_t piece) {
  std::size_t i = 0;
  for (; i < sources_.size() && piece >= pieces_of(sources_[i]); ++i) piece -= pieces_of(sources_[i]);
  if (i == sources_.size()) {
    require_targets();
    return warn_of_endless_answers();
  }
  OpenSource& source = sources_[i];
  CheckedRun checked;
  if (source.teacher) checked = [&](const TokenRange& run) { check_teacher(*source.teacher, run); };
  if (auto* packed = std::get_if<PackedTokenCheck>(&source.check)) return packed->run(piece, checked);
  std::get<TokenCheck>(source.check).run(source.file, piece, checked);
}

/// Error(kBadData) as ScoreFile::distributions().
void SourceFiles::check_teacher(const ScoreFile& teacher, const TokenRange& run) const {
  for (std::int64_t first = run.first, end = run.first + run.count; first < end;
       first += kCheckedDistributions)
    static_cast<void>(teacher.distributions({first, std::min(kCheckedDistributions, end - first)},
                                            options_.file.vocab_size));
}

void SourceFiles::take_reference(const ReferenceOptions& options, const std::function<void()>& tell) {
  std::vector<std::optional<ReferenceScores>> found(sources_.size());
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const OpenSource& source = sources_[i];
    if (source.read == 0) continue;
    tell();
    const ReferenceScores& scores = found[i].emplace(options, source.file);
    const auto require = [&](const PackedPair& pair) { scores.require(source.file.pair(pair.number), pair); };
    visit_pairs(i, require, tell);
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i].reference = std::move(found[i]);
}

void SourceFiles::visit_pairs(std::size_t source, const std::function<void(const PackedPair&)>& visit,
                              const std::function<void()>& tell) const {
  sluice::visit_pairs(*sources_[source].packer, sources_[source].read, visit, tell);
}

void SourceFiles::require_targets() const {
  std::vector<std::string> idle, causes;
  std::size_t read = 0;
  for (const OpenSource& source : sources_) {
    if (source.read > 0) ++read;
    if (source.read == 0 || has_target(source)) continue;
    idle.push_back(source.file.name());
    causes.emplace_back(
        source.file.masks_targets()
            ? "its loss_mask is 1 nowhere but where a document begins, which nothing predicts"
            : "every document is one token long. Is data.separator_token, or document_starts, what it "
              "should be?");
  }
  if (idle.empty()) return;
  if (idle.size() == read)
    fail({ExitCode::kBadData, "data.no_target"},
         "{}: none of the tokens that are read is a target, so there is nothing to predict: {}",
         join_some(idle), causes.front());
  for (std::size_t i = 0; i < idle.size(); ++i)
    log::warning("{}: none of the tokens that the steps read of it is a target: {}", idle[i], causes[i]);
}

/// Warns of answers that teach no end, in files that steps read; an evaluation teaches nothing.
void SourceFiles::warn_of_endless_answers() const {
  if (options_.file.keep_rest) return;
  for (const OpenSource& source : sources_)
    if (source.read > 0 && source.file.answers().endless > 0)
      log::warning("{}: {}", source.file.name(), endless_text(source.file.answers()));
}

bool SourceFiles::has_marks() const {
  return options_.marks_documents(facts_) || std::ranges::any_of(facts_, &SourceFacts::masks_targets);
}

Batch SourceFiles::read(std::span<const Mixture::Place> places) {
  const auto width = checked_cast<std::size_t>(options_.file.sequence_length + 1);
  const std::size_t marked = has_marks() ? width : 0;
  Batch batch{std::ssize(places), options_.file.sequence_length};
  batch.ids.resize(places.size() * width);
  batch.marks.resize(places.size() * marked);
  std::span<std::int64_t> ids(batch.ids);
  std::span<TokenMark> marks(batch.marks);
  for (const Mixture::Place& place : places) {
    read_sequence(place, ids.first(width), marks.first(marked));
    if (options_.has_pairs()) add_pairs(place, &place - places.data(), batch.pairs);
    if (options_.keeps_places) add_places(place, batch.places);
    if (teacher_.width > 0) add_teacher(place, marks.first(marked), batch.teacher);
    ids = ids.subspan(width);
    marks = marks.subspan(marked);
  }
  return batch;
}

/// Tokens of a sequence, in their order; padding follows.
std::vector<TokenRange> SourceFiles::runs(const Mixture::Place& place) {
  OpenSource& source = sources_[place.source];
  if (source.packer) return source.packer->sequence(place.sequence);
  return {source.file.tokens_of(place.sequence)};
}

/// Adds the number in its file of each token of a sequence.
void SourceFiles::add_places(const Mixture::Place& place, std::vector<std::int64_t>& places) {
  const std::size_t end = places.size() + checked_cast<std::size_t>(options_.file.sequence_length + 1);
  for (const TokenRange& run : runs(place))
    for (std::int64_t token = run.first; token < run.first + run.count; ++token) places.push_back(token);
  places.resize(end, -1);
}

/// Adds the teacher's distributions of the targets of a sequence with these `marks`, which are empty if all its tokens
/// are targets. Error(kBadData) for a target without one.
void SourceFiles::add_teacher(const Mixture::Place& place, std::span<const TokenMark> marks,
                              TeacherRows& rows) {
  const auto width = static_cast<std::size_t>(teacher_.width);
  const std::size_t begin = rows.rest.size(),
                    end = begin + checked_cast<std::size_t>(options_.file.sequence_length);
  rows.width = teacher_.width;
  rows.ids.resize(end * width, -1);
  rows.weights.resize(end * width, 0);
  rows.rest.resize(end, 0);
  const std::optional<ScoreFile>& teacher = sources_[place.source].teacher;
  if (!teacher) return;
  std::size_t column = 0;  // of the run's first token, which no earlier one predicts
  for (const TokenRange& run : runs(place)) {
    const TeacherRows found = teacher->distributions(run, options_.file.vocab_size);
    const auto found_width = static_cast<std::size_t>(found.width),
               count = static_cast<std::size_t>(run.count);
    for (std::size_t token = 1; token < count; ++token) {
      if (!marks.empty() && marks[column + token] != TokenMark::kInside) continue;
      if (found.ids[token * found_width] < 0)
        fail(
            ExitCode::kBadData,
            "{}: has no distribution of token {} of {}, expected one, because the token is a target. Was its document "
            "cut or left out when it was scored (data.long_documents)?",
            teacher->name(), run.first + static_cast<std::int64_t>(token),
            sources_[place.source].file.name());
      const std::size_t target = begin + column + token - 1;
      const auto at = [](std::size_t row, std::size_t of) { return static_cast<std::ptrdiff_t>(row * of); };
      std::copy_n(found.ids.begin() + at(token, found_width), found_width,
                  rows.ids.begin() + at(target, width));
      std::copy_n(found.weights.begin() + at(token, found_width), found_width,
                  rows.weights.begin() + at(target, width));
      rows.rest[target] = found.rest[token];
    }
    column += count;
  }
}

/// Adds the pairs of a packed sequence, which is number `sequence` of its batch.
void SourceFiles::add_pairs(const Mixture::Place& place, std::int64_t sequence,
                            std::vector<PreferencePair>& pairs) {
  OpenSource& source = sources_[place.source];
  std::int64_t begin = 0;
  const auto targets_of = [&](const TokenRange& run) {
    const std::int64_t first = std::exchange(begin, begin + run.count);
    return Range{first, first + run.count - 1};
  };
  for (const PackedPair& packed : source.packer->pairs(place.sequence)) {
    const DocumentPair& documents = source.file.pair(packed.number);
    const Range chosen = targets_of(packed.chosen);
    PreferencePair& pair =
        pairs.emplace_back(PreferencePair{sequence, chosen, targets_of(packed.rejected), documents.chosen,
                                          documents.rejected, static_cast<std::int64_t>(place.source)});
    if (!source.reference) continue;
    pair.chosen_reference = source.reference->log_prob(documents.chosen);
    pair.rejected_reference = source.reference->log_prob(documents.rejected);
  }
}

std::string SourceFiles::sample_digest() {
  if (facts_.size() == 1) return sample_of(0);
  std::string all;
  for (std::size_t source = 0; source < facts_.size(); ++source)
    all += fmt::format("{} {}\n", facts_[source].sequences, sample_of(source));
  return digest_of(all).hex();
}

std::string SourceFiles::whole_digest() const {
  constexpr std::int64_t kMostTokens = std::int64_t{4} << 20;
  std::string all;
  for (const OpenSource& source : sources_) {
    if (source.file.token_count() > kMostTokens) return "";
    all += source.file.digest().hex();
  }
  return digest_of(all).hex();
}

std::string SourceFiles::sample_of(std::size_t source) {
  constexpr std::int64_t kMost = 16;
  const std::int64_t count = std::min(kMost, options_.batch_sequences);
  std::vector<Mixture::Place> places;
  for (std::int64_t number = 0; number < count; ++number) places.push_back({source, number});
  if (!facts_[source].is_packed) {
    const std::vector<std::int64_t> sequences = mixture_->sampler(source).at(0, count);
    for (std::size_t i = 0; i < places.size(); ++i) places[i].sequence = sequences[i];
  }
  const Batch sample = read(places);
  const Digest ids = digest_of(std::as_bytes(std::span(sample.ids)), 0);
  if (!facts_[source].masks_targets) return ids.hex();
  return digest_of(ids.hex() + digest_of(std::as_bytes(std::span(sample.marks)), 0).hex()).hex();
}

void SourceFiles::read_sequence(const Mixture::Place& place, std::span<std::int64_t> ids,
                                std::span<TokenMark> marks) {
  OpenSource& source = sources_[place.source];
  if (!source.packer) return source.file.read_sequence(place.sequence, ids, marks);
  std::size_t filled = 0;
  for (const TokenRange& run : source.packer->sequence(place.sequence)) {
    const auto tokens = static_cast<std::size_t>(run.count);
    source.file.read_run(run, ids.subspan(filled, tokens), marks.subspan(filled, tokens));
    filled += tokens;
  }
  std::ranges::fill(ids.subspan(filled), 0);
  std::ranges::fill(marks.subspan(filled), TokenMark::kPadding);
}

}  // namespace sluice
