#include "checkpoint/rank_file.hpp"

#include "base/error.hpp"
#include "io/safetensors.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice {
namespace {

std::string entry_name(const SavedEntry& entry) {
  return fmt::format("{}/{}[{}:{}]", entry.tensor, entry.array, entry.numbers.begin, entry.numbers.end);
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

RankFileWriter::RankFileWriter(const ParameterManifest& manifest, std::span<const StateSpan> spans, int rank)
    : rank_(rank) {
  file_.name = rank_file_name(rank);
  for (const StateSpan& span : spans) add(manifest, span);
  std::vector<SafetensorsEntry> tensors;
  for (const SavedEntry& entry : file_.entries)
    tensors.push_back({entry_name(entry), entry.dtype, {entry.numbers.count()}, 0, 0});
  header_ = make_safetensors_header(tensors, {{"format", "sluice-state"}});
  file_.bytes = static_cast<std::int64_t>(header_.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    file_.entries[i].offset = tensors[i].begin;
    file_.bytes += tensors[i].bytes;
  }
}

void RankFileWriter::add(const ParameterManifest& manifest, const StateSpan& span) {
  if (span.is_copy || span.numbers.count() == 0) return;
  const std::string& name = manifest[span.tensor].name;
  if (!file_.entries.empty()) {
    SavedEntry& last = file_.entries.back();
    if (last.tensor == name && last.array == span.array && last.numbers.end == span.numbers.begin) {
      last.numbers.end = span.numbers.end;
      return;
    }
  }
  file_.entries.push_back({name, std::string(span.array), span.dtype, span.numbers, 0});
}

void RankFileWriter::create(const std::filesystem::path& directory) {
  out_.emplace(directory / file_.name, rank_);
  out_->append(std::as_bytes(std::span(header_)));
}

SavedFile RankFileWriter::close() {
  SLUICE_ASSERT(out_->bytes() == file_.bytes, "found {} bytes written to {}, planned {}", out_->bytes(),
                file_.name, file_.bytes);
  out_->close();
  file_.blocks = out_->digests();
  out_.reset();
  return std::move(file_);
}

}  // namespace sluice
