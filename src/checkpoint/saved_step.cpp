#include "checkpoint/saved_step.hpp"

#include "base/error.hpp"
#include "base/round.hpp"
#include "base/text.hpp"
#include "config/job_copy.hpp"
#include "config/key_aliases.hpp"
#include "config/toml_source.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

using nlohmann::json;

constexpr std::int64_t kFormat = 1, kFormatOfHosts = 2;
constexpr std::size_t kHexDigits = 32;
constexpr std::int64_t kMostHosts = std::numeric_limits<int>::max();

/// Reader of a JSON object, with the name of its file for messages.
class Reader {
 public:
  Reader(const json& object, const std::string& name) : object_(object), name_(name) {
    if (!object.is_object()) reject("found something else where an object belongs");
  }

  [[noreturn]] void reject(const std::string& found) const {
    fail({ExitCode::kBadData, "checkpoint.damaged"}, "{} is not the manifest of a checkpoint: {}", name_,
         found);
  }

  [[nodiscard]] const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) reject(fmt::format("\"{}\" is missing", key));
    return *found;
  }

  [[nodiscard]] std::int64_t integer(const char* key) const { return integer(key, at(key)); }
  [[nodiscard]] std::int64_t integer(const char* key, const json& value) const {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost)
      reject(fmt::format("\"{}\" is {}, expected an integer that is not negative", key,
                         printable(value.dump())));
    return value.get<std::int64_t>();
  }

  [[nodiscard]] std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string())
      reject(fmt::format("\"{}\" is {}, expected a string", key, printable(value.dump())));
    return value.get<std::string>();
  }

  [[nodiscard]] const json& array(const char* key) const {
    const json& value = at(key);
    if (!value.is_array()) reject(fmt::format("\"{}\" is not an array", key));
    return value;
  }

  [[nodiscard]] double real(const char* key) const {
    const json& value = at(key);
    if (!value.is_number())
      reject(fmt::format("\"{}\" is {}, expected a number", key, printable(value.dump())));
    return value.get<double>();
  }

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  const json& object_;
  const std::string& name_;
};

json to_json(const SavedFile& file) {
  json entries = json::array();
  for (const SavedEntry& entry : file.entries)
    entries.push_back({{"tensor", entry.tensor},
                       {"array", entry.array},
                       {"dtype", safetensors_name(entry.dtype)},
                       {"numbers", {entry.numbers.begin, entry.numbers.end}},
                       {"offset", entry.offset}});
  std::string blocks;
  for (const Digest& digest : file.blocks) blocks += digest.hex();
  json out{{"name", file.name}, {"bytes", file.bytes}, {"entries", std::move(entries)}, {"blocks", blocks}};
  if (!file.hosts.empty()) out["hosts"] = file.hosts;
  return out;
}

SavedEntry entry_from(const Reader& in, std::int64_t file_bytes) {
  SavedEntry entry{in.text("tensor"), in.text("array"), {}, {}, in.integer("offset")};
  const std::optional<DType> dtype = dtype_from_safetensors(in.text("dtype"));
  if (!dtype) in.reject(fmt::format("there is no dtype {}", printable(in.text("dtype"))));
  entry.dtype = *dtype;
  const json& numbers = in.array("numbers");
  if (numbers.size() != 2) in.reject("\"numbers\" are not two");
  entry.numbers = {in.integer("numbers", numbers[0]), in.integer("numbers", numbers[1])};
  const bool fits = entry.numbers.begin <= entry.numbers.end && entry.offset <= file_bytes &&
                    entry.numbers.count() <= (file_bytes - entry.offset) / size_of(entry.dtype);
  if (!fits)
    in.reject(fmt::format("{} of {} does not lie in its file", entry.array, printable(entry.tensor)));
  return entry;
}

/// Whether a text is the name of a file in a directory, or in a folder of it.
bool is_file_name(const std::string& name) {
  const std::filesystem::path path(name);
  const bool stays = std::ranges::none_of(path, [](const std::filesystem::path& part) {
    return part.empty() || part == "." || part == ".." || part == "/";
  });
  return !name.empty() && name.find('\0') == std::string::npos && stays;
}

SavedFile file_from(const Reader& in) {
  SavedFile file{in.text("name"), in.integer("bytes"), {}, {}};
  if (!is_file_name(file.name))
    in.reject(fmt::format("{} is not the name of a file beside the manifest", printable(file.name)));
  for (const json& entry : in.array("entries"))
    file.entries.push_back(entry_from(Reader(entry, in.name()), file.bytes));
  const std::string blocks = in.text("blocks");
  const auto count = static_cast<std::size_t>(file.block_count());
  if (blocks.size() % kHexDigits != 0 || blocks.size() / kHexDigits != count)
    in.reject(
        fmt::format("{} has digests of another number of blocks than its {} bytes", file.name, file.bytes));
  for (std::size_t at = 0; at < blocks.size(); at += kHexDigits) {
    const std::optional<Digest> digest = digest_from_hex(std::string_view(blocks).substr(at, kHexDigits));
    if (!digest) in.reject(fmt::format("a digest of {} is not a hexadecimal number", file.name));
    file.blocks.push_back(*digest);
  }
  if (in.has("hosts"))
    for (const json& host : in.array("hosts"))
      file.hosts.push_back(static_cast<int>(std::min(in.integer("hosts", host), kMostHosts)));
  return file;
}

json to_json(const HeldOutStep& held_out) { return {{"step", held_out.step}, {"loss", held_out.loss}}; }

json to_json(const SavedAdapters& adapters) {
  json tensors = json::array();
  for (const AdaptedTensor& tensor : adapters.description.tensors)
    tensors.push_back({{"base", tensor.base}, {"rank", tensor.rank}, {"scale", tensor.scale}});
  return {{"rslora", adapters.style.rslora},
          {"tree", adapters.style.tree},
          {"dropout", adapters.description.dropout},
          {"tensors", std::move(tensors)}};
}

HeldOutStep held_out_from(const Reader& in) { return {in.integer("step"), in.real("loss")}; }

SavedAdapters adapters_from(const Reader& in) {
  SavedAdapters out;
  out.style.tree = in.text("tree");
  out.description.dropout = in.real("dropout");
  const json& rslora = in.at("rslora");
  if (!rslora.is_boolean()) in.reject("\"rslora\" is neither true nor false");
  out.style.rslora = rslora.get<bool>();
  for (const json& tensor : in.array("tensors")) {
    const Reader reader(tensor, in.name());
    out.description.tensors.push_back({reader.text("base"), reader.integer("rank"), reader.real("scale")});
  }
  return out;
}

std::vector<std::string> hosts_from(const Reader& in) {
  std::vector<std::string> hosts;
  for (const json& host : in.array("hosts")) {
    if (!host.is_string()) in.reject("\"hosts\" has something else than a name");
    hosts.push_back(host.get<std::string>());
  }
  if (hosts.empty()) in.reject("\"hosts\" is empty, expected the hosts of the files");
  return hosts;
}

SavedStep step_from(const Reader& in) {
  const std::int64_t format = in.integer("format");
  if (format != kFormat && format != kFormatOfHosts)
    in.reject(
        fmt::format("its format is {}, and this version reads {} and {}", format, kFormat, kFormatOfHosts));
  SavedStep step;
  if (format == kFormatOfHosts) step.hosts = hosts_from(in);
  step.step = in.integer("step");
  if (in.has("attempt")) step.attempt = in.integer("attempt");
  step.saved = in.text("saved");
  step.version = in.text("version");
  step.structure_hash = in.text("structure_hash");
  const std::int64_t world = in.integer("world_size");
  if (world < 1 || world > std::numeric_limits<int>::max()) in.reject("\"world_size\" is out of range");
  step.world_size = static_cast<int>(world);
  const json& keys = in.at("job");
  if (!keys.is_object()) in.reject("\"job\" is not an object");
  for (const auto& [key, value] : keys.items()) {
    if (!value.is_string()) in.reject(fmt::format("\"job\" has no text for {}", printable(key)));
    step.job.push_back({current_name(key), value.get<std::string>()});
  }
  const Reader data(in.at("data"), in.name());
  step.sequences = data.integer("sequences");
  step.data_digest = data.text("digest");
  if (data.has("whole_digest")) step.whole_data_digest = data.text("whole_digest");
  if (data.has("packing"))
    for (const json& source : data.array("packing")) {
      const Reader position(source, in.name());
      step.packing.push_back({position.integer("window"), position.integer("given")});
    }
  if (in.has("base")) step.base_digest = Reader(in.at("base"), in.name()).text("digest");
  if (in.has("started_in")) step.started_in = in.text("started_in");
  if (in.has("adapters")) step.adapters = adapters_from(Reader(in.at("adapters"), in.name()));
  if (in.has("best")) step.best = held_out_from(Reader(in.at("best"), in.name()));
  step.held_out.lowest = step.best;
  if (in.has("held_out")) {
    const Reader held_out(in.at("held_out"), in.name());
    step.held_out = {held_out_from(held_out), held_out.integer("since")};
  }
  for (const json& file : in.array("files")) {
    step.files.push_back(file_from(Reader(file, in.name())));
    for (const int host : step.files.back().hosts)
      if (host >= std::ssize(step.hosts))
        in.reject(fmt::format("{} lies on host {} of {}", step.files.back().name, host, step.hosts.size()));
  }
  return step;
}

/// The manifest's own digest covers the text of "content" as it stands in the file.
constexpr std::string_view kBegin = R"({"content":)", kMiddle = R"(,"digest":")", kEnd = "\"}\n";

}  // namespace

std::int64_t SavedStep::bytes() const {
  return std::accumulate(files.begin(), files.end(), std::int64_t{0},
                         [](std::int64_t sum, const SavedFile& file) { return sum + file.bytes; });
}

std::string SavedStep::key(std::string_view name) const {
  const auto found = std::ranges::find(job, name, &ConfigEntry::key);
  return found == job.end() ? "" : found->value;
}

std::string SavedStep::text(std::string_view name) const { return text_in_toml(key(name)); }

std::filesystem::path SavedStep::path(std::string_view name) const {
  return from_start(started_in, text(name));
}

bool SavedStep::holds_adapters() const {
  const std::string rank = key("lora.rank");
  return !adapters.description.empty() || (!rank.empty() && rank != "0") || !text("lora.start").empty();
}

std::string SavedStep::hosts_text(const SavedFile& file) const {
  std::vector<std::string> names;
  for (const int host : file.hosts) names.push_back(hosts[static_cast<std::size_t>(host)]);
  return fmt::format("{}", fmt::join(names, " and "));
}

bool HeldOutProgress::add(std::int64_t step, double loss) {
  if (!std::isfinite(loss) || (lowest.step > 0 && loss >= lowest.loss)) {
    ++since;
    return false;
  }
  lowest = {step, loss};
  since = 0;
  return true;
}

std::string to_manifest(const SavedStep& step) {
  json keys = json::object();
  for (const ConfigEntry& entry : step.job) keys[entry.key] = entry.value;
  json files = json::array();
  for (const SavedFile& file : step.files) files.push_back(to_json(file));
  json content{{"format", step.hosts.empty() ? kFormat : kFormatOfHosts},
               {"step", step.step},
               {"saved", step.saved},
               {"version", step.version},
               {"structure_hash", step.structure_hash},
               {"world_size", step.world_size},
               {"job", std::move(keys)},
               {"data", {{"sequences", step.sequences}, {"digest", step.data_digest}}},
               {"files", std::move(files)}};
  if (!step.hosts.empty()) content["hosts"] = step.hosts;
  if (!step.whole_data_digest.empty()) content["data"]["whole_digest"] = step.whole_data_digest;
  for (const PackPosition& position : step.packing)
    content["data"]["packing"].push_back({{"window", position.window}, {"given", position.given}});
  if (step.attempt > 0) content["attempt"] = step.attempt;
  if (!step.base_digest.empty()) content["base"] = {{"digest", step.base_digest}};
  if (!step.started_in.empty()) content["started_in"] = step.started_in.string();
  if (!step.adapters.description.empty()) content["adapters"] = to_json(step.adapters);
  if (step.best.step > 0) content["best"] = to_json(step.best);
  if (step.held_out.lowest.step > 0) {
    content["held_out"] = to_json(step.held_out.lowest);
    content["held_out"]["since"] = step.held_out.since;
  }
  const std::string text = content.dump();
  return fmt::format("{}{}{}{}{}", kBegin, text, kMiddle, digest_of(text).hex(), kEnd);
}

SavedStep parse_manifest(std::string_view text, const std::string& name) {
  const auto reject = [&](std::string_view found) {
    fail({ExitCode::kBadData, "checkpoint.damaged"}, "{} is not the manifest of a checkpoint: {}", name,
         found);
  };
  const std::size_t frame = kBegin.size() + kMiddle.size() + kHexDigits + kEnd.size();
  if (text.size() < frame || !text.starts_with(kBegin) || !text.ends_with(kEnd))
    reject("it does not begin and end as one, so it was cut or is something else");
  const std::string_view content = text.substr(kBegin.size(), text.size() - frame);
  const std::string_view rest = text.substr(kBegin.size() + content.size());
  if (!rest.starts_with(kMiddle) || rest.substr(kMiddle.size(), kHexDigits) != digest_of(content).hex())
    reject("its digest is not that of its content, so it was changed after it was written");
  const json parsed = json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) reject("it is not valid JSON; was the file cut short?");
  return step_from(Reader(parsed, name));
}

std::string to_text(const SavedFile& file) { return to_json(file).dump(); }

SavedFile saved_file_from(std::string_view text) {
  const std::string name = "what a rank tells of its file";
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return file_from(Reader(parsed, name));
}

}  // namespace sluice
