#include "model/model_directory.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "io/json_object.hpp"
#include "io/path.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <regex>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Characters of the longest path that is taken for a name on the hub.
constexpr std::size_t kLongestName = 256;

/// Path from the root on, since a relative one depends on where a job starts.
std::string whole(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  return error ? path.string() : absolute.string();
}

bool holds(const fs::path& directory, std::string_view file) {
  std::error_code error;
  return fs::exists(directory / file, error);
}

bool has_ending(const fs::path& path, std::string_view ending) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
  return std::ranges::equal(path.extension().string(), ending, same);
}

/// Entries of a directory, ascending, so that messages name the same ones everywhere.
std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::vector<fs::path> entries = entries_in(directory);
  std::ranges::sort(entries);
  return entries;
}

bool is_gguf(const fs::path& file) {
  std::array<char, 4> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  return has_ending(file, ".gguf") || std::string_view(begin.data(), begin.size()) == "GGUF";
}

std::string gguf_text(const std::string& file) {
  return fmt::format(
      "{} is in llama.cpp's GGUF format, which is not supported. Use the directory that it was made "
      "from, with config.json and safetensors files in bfloat16, FP8, INT4, MXFP4 or NVFP4",
      file);
}

/// " of BASE" by an adapter's configuration, or "".
std::string base_text(const fs::path& config) {
  constexpr const char* kBase = "base_model_name_or_path";
  try {
    const auto text = parse_json_object(read_text_file(config, 16 * kMiB), "");
    const auto base = text.find(kBase);
    if (base == text.end() || !base->is_string() || base->get_ref<const std::string&>().empty()) return "";
    return " of " + printable(base->get<std::string>());
  } catch (const Error&) {
    return "";  // the fault is told where the adapter is read
  }
}

std::string adapter_text(const fs::path& directory) {
  return fmt::format(
      "{} holds an adapter{}, expected a model. Name the model that it adapts as model.path, and the adapter as "
      "model.adapter, or as lora.start in a training",
      whole(directory), base_text(directory / kPeftConfigFile));
}

std::string directory_text(const fs::path& directory) {
  if (holds(directory, kPeftConfigFile)) return adapter_text(directory);
  std::string gguf, snapshot;
  for (const fs::path& entry : sorted_entries(directory)) {
    if (holds(entry, kPeftConfigFile)) return adapter_text(entry);
    if (gguf.empty() && has_ending(entry, ".gguf")) gguf = entry.filename().string();
  }
  if (!gguf.empty()) return gguf_text(fmt::format("{}: {}", whole(directory), gguf));
  for (const fs::path& entry : sorted_entries(directory / "snapshots"))
    if (holds(entry, "config.json")) snapshot = whole(entry);
  if (snapshot.empty()) return "";
  return fmt::format("{} is a folder of the hub's cache, expected the model in it: {}", whole(directory),
                     snapshot);
}

/// Name on the hub that a path may be: "Qwen/Qwen3-30B-A3B" or "gpt2", also behind the hub's address; "" if it
/// can be none.
std::string hub_name(const fs::path& path) {
  static const std::regex address("(https?://|hf://)?((huggingface\\.co|hf\\.co)/)?");
  static const std::regex of_address("([A-Za-z0-9][\\w.-]*/[A-Za-z0-9][\\w.-]*)(/.*)?");
  static const std::regex plain("[A-Za-z0-9][\\w.-]*(/[A-Za-z0-9][\\w.-]*)?/?");
  const std::string text = path.string();
  std::smatch begin, name;
  std::regex_search(text, begin, address, std::regex_constants::match_continuous);
  if (begin.length() > 0) {
    const std::string rest = begin.suffix();
    return std::regex_match(rest, name, of_address) ? name[1].str() : "";
  }
  if (text.size() > kLongestName || !std::regex_match(text, plain)) return "";
  const fs::path owner = path.parent_path();
  std::error_code error;
  const bool is_local = path.has_filename() && !owner.empty() && fs::is_directory(owner, error);
  return is_local ? "" : text.ends_with('/') ? text.substr(0, text.size() - 1) : text;
}

std::string absence_text(const fs::path& path) {
  const std::string name = hub_name(path);
  if (name.empty()) return "";
  return fmt::format(
      "there is no directory {}. If it is a name on Hugging Face's hub: nothing is downloaded here; `hf download {} "
      "--local-dir DIR` brings it, and DIR is what to name",
      printable(path.string().starts_with(name) ? whole(path) : path.string()), name);
}

}  // namespace

std::string why_no_model(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::directory) return directory_text(path);
  if (type == fs::file_type::not_found) return absence_text(path);
  if (type != fs::file_type::regular) return "";
  if (is_gguf(path)) return gguf_text(whole(path));
  return fmt::format("{} is a file, expected a model's directory, with config.json and safetensors files",
                     whole(path));
}

void require_model_directory(const fs::path& path) {
  if (holds(path, "config.json")) return;
  if (const std::string why = why_no_model(path); !why.empty())
    fail({ExitCode::kBadData, "model.not_a_model"}, "{}", why);
}

}  // namespace sluice
