// Shards of units between memory and disk, along the passes over the layers.
#pragma once

#include "base/range.hpp"
#include "io/paged_file.hpp"
#include "shard/arena.hpp"
#include "shard/offload_plan.hpp"
#include "shard/stage_plan.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice {

class OffloadedUnits {
 public:
  enum class Pass : std::uint8_t {
    kForward,
    kNorm,    ///< backward, to know the norm of the gradients
    kUpdate,  ///< backward, and the weights are updated
  };

  /// The file of `plan` in `directory`, to which weights go as they are loaded or drawn: mapped, as PagedFile
  /// calls it. `weights` is not touched yet and must outlive this. Errors as PagedFile.
  OffloadedUnits(const ShardArena& weights, const OffloadPlan& plan, const std::filesystem::path& directory,
                 double limit_seconds);

  /// Takes the state of the optimizer in, all zero: `unit_bytes` of `state` are those of each unit. It must
  /// outlive this, or the call of stop().
  void add_state(std::byte* state, const std::vector<Range>& unit_bytes);
  void stop() { file_.stop(); }

  /// Switches between paged and mapped mode: page() before passes, map() before all of the arena and the
  /// state is read or written, as by an export.
  void page() { file_.page(); }
  void map(PagedFile::Access access = PagedFile::Access::kRead) { file_.map(access); }

  /// Between passes: what the last update has changed is on the disk.
  void settle() { file_.finish(); }
  /// Address at which the bytes that belong at `data` can be read: there, or if they lie on the disk in
  /// `buffer`, which is filled with them as PagedFile::peek() does. For a thread beside the passes, from
  /// settle() on until their unit is updated.
  [[nodiscard]] const std::byte* bytes_of(const std::byte* data, std::int64_t bytes,
                                          std::span<std::byte> buffer) const;

  /// Begins a pass over the stages, in their order or, backward, in the opposite one.
  void begin_pass(Pass pass) { pass_ = pass; }
  /// Waits until the stage's shards are in memory, and begins to read what will be needed next. Errors as
  /// PagedFile::acquire().
  void enter(const Stage& stage);
  void leave(const Stage& stage);

  [[nodiscard]] const PagedFile& file() const { return file_; }

 private:
  struct Regions {
    int weights = -1;
    int state = -1;
    bool is_trained = false;
  };

  [[nodiscard]] bool is_offloaded(int unit) const {
    return plan_.units[static_cast<std::size_t>(unit)].any();
  }
  [[nodiscard]] bool uses_state(const Regions& regions) const {
    return regions.state >= 0 && pass_ == Pass::kUpdate;
  }
  void add(int& region, std::span<std::byte> memory);
  /// The next unit of the pass that lies on the disk; -1 for none.
  [[nodiscard]] int next_after(int unit) const;

  OffloadPlan plan_;
  std::vector<Regions> regions_;
  std::vector<std::span<const std::byte>> places_;  ///< bytes in memory of each region of the file
  Pass pass_ = Pass::kForward;
  PagedFile file_;
};

}  // namespace sluice
