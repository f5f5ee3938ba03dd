#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "job/commands/commands.hpp"
#include "model/architecture.hpp"
#include "process/console.hpp"
#include "process/progress_line.hpp"
#include "verify/checkpoint_content.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct VerifyArguments {
  std::filesystem::path directory;
  std::optional<std::filesystem::path> other;
  bool json = false;
};

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kShown = 100;  ///< most names of one kind that are printed

/// A directory, and what was found in it.
struct Verified {
  fs::path directory;
  CheckpointIndex index;
  std::optional<ModelDescription> model;  ///< model that config.json describes
  CheckpointContent content;
  std::int64_t bytes = 0;
  std::int64_t non_finite = 0;
};

/// Model of a directory; nothing if it has no config.json that is understood.
std::optional<ModelDescription> model_of(const fs::path& directory) {
  try {
    return describe_published_model(directory);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadData) throw;
    return std::nullopt;
  }
}

/// Opens a directory: reads the headers and what they say.
Verified open(const fs::path& directory) {
  Verified v{directory, read_checkpoint_index(directory), model_of(directory), {}, 0, 0};
  require_listed_tensors(v.index);
  for (const CheckpointEntry& entry : v.index.entries) v.bytes += entry.bytes;
  return v;
}

/// Manifest for one of two directories: from its own config.json, or else from that of the other one.
const ParameterManifest* manifest_of(const Verified& v, const Verified* other) {
  if (v.model) return &v.model->manifest;
  return other != nullptr && other->model ? &other->model->manifest : nullptr;
}

/// Verifies a directory; `other` is what it is compared with, or null; `quiet` if stdout has only JSON.
void verify(Verified& v, const Verified* other, bool quiet) {
  ProgressLine progress("read");
  v.content = read_content(v.index, v.directory, manifest_of(v, other), [&](std::int64_t done) {
    if (!quiet) progress(done, v.bytes);
  });
  for (const PublishedDigest& tensor : v.content.tensors) v.non_finite += tensor.non_finite;
}

const std::string& file_of(const Verified& v, const PublishedDigest& tensor) {
  const CheckpointEntry& entry = v.index.entries[static_cast<std::size_t>(tensor.entry)];
  return v.index.files[static_cast<std::size_t>(entry.file)].name;
}

void print_summary(const std::vector<std::reference_wrapper<const Verified>>& all) {
  std::vector<std::vector<std::string>> rows{
      {"directory", "files", "tensors", "bytes", "not finite", "content"}};
  for (const Verified& v : all)
    rows.push_back({v.directory.string(), fmt::format("{}", v.index.files.size()),
                    fmt::format("{}", v.content.tensors.size()), format_bytes(v.bytes),
                    fmt::format("{}", v.non_finite), v.content.digest().hex()});
  console::write_line(console::table(rows));
  for (const Verified& v : all)
    for (const std::string& warning : v.index.warnings)
      console::line("  {}: {}", v.directory.string(), warning);
}

json as_json(const Verified& v) {
  json tensors = json::array();
  for (const PublishedDigest& tensor : v.content.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"file", file_of(v, tensor)},
                       {"dtype", name_of(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"form", v.index.form_of(v.index.entries[static_cast<std::size_t>(tensor.entry)])},
                       {"digest", tensor.digest.hex()},
                       {"non_finite", tensor.non_finite}});
  return {{"directory", v.directory.string()},
          {"files", v.index.files.size()},
          {"bytes", v.bytes},
          {"non_finite", v.non_finite},
          {"content", v.content.digest().hex()},
          {"warnings", v.index.warnings},
          {"tensors", std::move(tensors)}};
}

json as_json(const ContentComparison& comparison, const Verified& a, const Verified& b) {
  json different = json::array();
  for (const auto& [name, here, there] : comparison.different)
    different.push_back({{"name", name}, {"a", here}, {"b", there}});
  return {{"equal", comparison.is_equal()},
          {"different", std::move(different)},
          {"only_in_a", comparison.only_here},
          {"only_in_b", comparison.only_there},
          {"spare_in_a", comparison.spare_here},
          {"spare_in_b", comparison.spare_there},
          {"a", as_json(a)},
          {"b", as_json(b)}};
}

/// Indices of an element in each dim of a tensor.
std::vector<std::int64_t> place_in(const std::vector<std::int64_t>& shape, std::int64_t element) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0; element /= shape[dim]) place[dim] = element % shape[dim];
  return place;
}

void refuse_non_finite(const Verified& v) {
  std::vector<std::string> lines;
  for (const PublishedDigest& tensor : v.content.tensors)
    if (tensor.non_finite > 0)
      lines.push_back(fmt::format("{} ({}): {}, first at {}", printable(tensor.name), file_of(v, tensor),
                                  tensor.non_finite,
                                  shape_text(place_in(tensor.shape, tensor.first_non_finite))));
  if (!lines.empty())
    fail({ExitCode::kBadData, "weights.not_finite"}, "{}: {} {} infinite or NaN, in {}:{}",
         v.directory.string(), counted(v.non_finite, "value"), is_or_are(v.non_finite),
         counted(std::ssize(lines), "tensor"), lines_of_some(lines, kShown));
}

/// Prints tensors that only one side has, though no model needs them.
void print_spare(const Verified& v, const std::vector<std::string>& names) {
  if (!names.empty())
    console::line("  only in {}, which no text model needs ({}):{}", v.directory.string(), names.size(),
                  lines_of_some(names, 10));
}

std::string missing_text(const Verified& has, const std::vector<std::string>& names) {
  return names.empty() ? ""
                       : fmt::format("\n  only in {} ({}):{}", has.directory.string(), names.size(),
                                     lines_of_some(names, kShown));
}

void refuse_different(const ContentComparison& comparison, const Verified& a, const Verified& b) {
  if (comparison.is_equal()) return;
  std::vector<std::string> lines;
  for (const auto& [name, here, there] : comparison.different)
    lines.push_back(fmt::format("{}: {} and {}", printable(name), here, there));
  std::string text = missing_text(a, comparison.only_here) + missing_text(b, comparison.only_there);
  if (!lines.empty())
    text += fmt::format("\n  different ({}):{}", lines.size(), lines_of_some(lines, kShown));
  fail({ExitCode::kBadData, "verify.differs"}, "{} and {} differ:{}", a.directory.string(),
       b.directory.string(), text);
}

void verify_one(const Verified& v, bool json_wanted) {
  if (json_wanted)
    print_json(as_json(v));
  else
    print_summary({v});
  refuse_non_finite(v);
}

void verify_two(const Verified& a, const Verified& b, bool json_wanted) {
  const ContentComparison comparison = compare(a.content, b.content);
  if (json_wanted) {
    print_json(as_json(comparison, a, b));
  } else {
    print_summary({a, b});
    print_spare(a, comparison.spare_here);
    print_spare(b, comparison.spare_there);
  }
  refuse_different(comparison, a, b);
}

/// Reads every tensor of a model directory, and checks its index and values; with a second directory, also
/// that both hold the same, whatever their layout and files. If neither has a config.json, names and shapes
/// of tensors decide. Error(kBadData), after the summary, if a value is not finite or the two differ.
int verify_command(const VerifyArguments& arguments) {
  Verified first = open(arguments.directory);
  if (!arguments.other) {
    verify(first, nullptr, arguments.json);
    verify_one(first, arguments.json);
    return 0;
  }
  // Opened first, before hours are spent on reading the other directory.
  Verified second = open(*arguments.other);
  verify(first, &second, arguments.json);
  verify(second, &first, arguments.json);
  verify_two(first, second, arguments.json);
  return 0;
}

}  // namespace

void add_verify(CommandLine& line) {
  const auto [command, arguments] = add_command<VerifyArguments>(
      line, "verify", "Check a model directory's tensors, or that two hold the same ones", verify_command);
  command.add_option("model_dir", arguments.directory, "Hugging Face directory")->required();
  command.add_option("other_dir", arguments.other, "Directory to compare it with");
  command.add_flag("--json", arguments.json, "Print JSON, with the digest of every tensor");
}

}  // namespace sluice
