#include "checkpoint/hosts/held_steps.hpp"

#include "base/byte_stream.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "checkpoint/step_source.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"
#include "io/path.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Part of a checkpoint on one disk.
struct Part {
  std::int64_t attempt = 0;
  std::string manifest;            ///< digest of the manifest; "" if the disk has no readable one
  std::string saved;               ///< time at which the step was saved
  std::string broken;              ///< fault of the manifest, or ""
  std::vector<std::string> lacks;  ///< fault of each file of the manifest, or ""

  [[nodiscard]] bool has(std::size_t file) const { return lacks[file].empty(); }

  [[nodiscard]] std::string to_bytes() const {
    ByteWriter out;
    out.number(attempt);
    for (const std::string& text : {manifest, saved, broken}) out.text(text);
    out.number(std::ssize(lacks));
    for (const std::string& text : lacks) out.text(text);
    return out.take();
  }
  static Part from_bytes(const std::string& bytes) {
    ByteReader in(bytes);
    Part part;
    part.attempt = in.number();
    for (std::string* text : {&part.manifest, &part.saved, &part.broken}) *text = in.text();
    part.lacks.resize(static_cast<std::size_t>(in.number()));
    for (std::string& text : part.lacks) text = in.text();
    return part;
  }
};

/// Fault that `check` finds; errors of the system are thrown on.
std::string fault_of(const std::function<void()>& check) {
  const Outcome outcome = outcome_of(check);
  if (outcome.code != ExitCode::kBadData) outcome.throw_if_failed();
  return outcome.text;
}

/// Looks at a checkpoint on a disk, on which files of other hosts may be missing unless the disks `are_all`.
Part examine(const fs::path& path, bool are_all) {
  Part part;
  if (!path_exists(path)) return part;
  SavedStep step;
  part.broken = fault_of([&] { step = read_manifest(path); });
  if (!part.broken.empty()) return part;
  part.manifest = digest_of(to_manifest(step)).hex();
  part.attempt = step.attempt;
  part.saved = step.saved;
  for (const SavedFile& file : step.files) {
    const bool may_be_elsewhere = !are_all && !file.hosts.empty();
    part.lacks.push_back(may_be_elsewhere && !path_exists(path / file.name) ? "" : fault_of([&] {
      require_file(path, file);
    }));
  }
  return part;
}

/// The disks that have the step with this manifest, and which of its files.
FileHolders holders_of(const std::vector<Part>& parts, const std::string& manifest) {
  FileHolders holders;
  for (int disk = 0; disk < std::ssize(parts); ++disk) {
    const Part& part = parts[static_cast<std::size_t>(disk)];
    if (part.manifest != manifest) continue;
    holders.resize(part.lacks.size());
    for (std::size_t file = 0; file < holders.size(); ++file)
      if (part.has(file)) holders[file].push_back(disk);
  }
  return holders;
}

/// A form of a step: one of its manifests, and the disk that has it.
struct Form {
  std::int64_t attempt = 0;
  std::string saved;
  int disk = 0;
};

/// Forms of a step by attempt and time of the save, the last one first.
std::vector<Form> forms_of(const std::vector<Part>& parts) {
  std::vector<Form> forms;
  std::set<std::string> seen;
  for (int disk = 0; disk < std::ssize(parts); ++disk) {
    const Part& part = parts[static_cast<std::size_t>(disk)];
    if (!part.manifest.empty() && seen.insert(part.manifest).second)
      forms.push_back({part.attempt, part.saved, disk});
  }
  std::ranges::stable_sort(forms, std::greater(),
                           [](const Form& form) { return std::tuple(form.attempt, form.saved); });
  return forms;
}

/// Reason why no form of the step is complete.
std::string what_is_wrong(const std::vector<Part>& parts, const fs::path& path) {
  for (const Part& part : parts)
    if (!part.broken.empty()) return part.broken;
  for (const Part& part : parts)
    for (const std::string& lack : part.lacks)
      if (!lack.empty()) return lack + (parts.size() > 1 ? ", and no other host of this job has it" : "");
  return fmt::format("{}: there is no such step any more", path.string());
}

}  // namespace

HeldSteps::HeldSteps(Communicator& comm, RankDisks disks, fs::path directory)
    : comm_(comm), disks_(std::move(disks)), directory_(std::move(directory)) {
  ByteWriter own;
  run_together(comm_, [&] {
    if (!disks_.is_first(comm_.rank())) return;
    for (const StepPlace& place : list_steps(directory_)) own.number(place.step);
  });
  std::set<std::int64_t> numbers;
  for (const std::string& bytes : comm_.all_gather_text(own.bytes()))
    for (ByteReader in(bytes); !in.at_end();) numbers.insert(in.number());
  for (const std::int64_t step : numbers) steps_.push_back({step, directory_ / step_name(step)});
}

HeldStep HeldSteps::read(const StepPlace& place) const {
  Part own;
  run_together(comm_, [&] {
    if (disks_.is_first(comm_.rank())) own = examine(place.path, disks_.are_all());
  });
  const std::vector<std::string> texts = comm_.all_gather_text(own.to_bytes());
  std::vector<Part> parts;
  for (int disk = 0; disk < disks_.count(); ++disk)
    parts.push_back(Part::from_bytes(texts[static_cast<std::size_t>(disks_.first_rank(disk))]));
  for (const Form& form : forms_of(parts)) {
    FileHolders holders = holders_of(parts, parts[static_cast<std::size_t>(form.disk)].manifest);
    if (std::ranges::any_of(holders, &std::vector<int>::empty)) continue;
    const int reader = disks_.first_rank(form.disk);
    std::string manifest;
    run_together(comm_, [&] {
      if (comm_.rank() == reader) manifest = to_manifest(read_manifest(place.path));
    });
    manifest = comm_.broadcast_text(manifest, reader);
    return {{place.path, parse_manifest(manifest, place.path.string())}, std::move(holders)};
  }
  throw SharedError(ExitCode::kBadData, what_is_wrong(parts, place.path), 0, 0);
}

std::optional<HeldStep> HeldSteps::find(std::int64_t which, const TellBroken& on_broken) const {
  std::map<std::int64_t, FileHolders> holders;
  const auto read_one = [&](const StepPlace& place) {
    HeldStep held = read(place);
    holders[place.step] = std::move(held.holders);
    return std::move(held.found.step);
  };
  std::optional<FoundStep> found = step_in(directory_, steps_, read_one, which, on_broken);
  if (!found) return std::nullopt;
  FileHolders of_found = std::move(holders.at(found->step.step));
  return HeldStep{*std::move(found), std::move(of_found)};
}

}  // namespace sluice
