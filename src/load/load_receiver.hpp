// The receiving side of a load. Private to src/load.
#pragma once

#include "load/load_side.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// A rank that does not read: posts its receives as many chunks ahead as the ring has slots, into the arena
/// wherever no conversion is needed. Passes on what it gets if there is another set.
class LoadReceiver {
 public:
  /// `setting` must outlive the receiver.
  explicit LoadReceiver(const LoadSetting& setting);

  [[nodiscard]] std::size_t steps() const { return chunks_.size(); }
  /// Waits for this rank's moves of chunk number `number` and writes them to the arena. Must be called in
  /// chunk order.
  void step(std::size_t number);
  /// Checks that the load is complete; each step has waited for its own moves.
  void finish();

  [[nodiscard]] std::int64_t staging_bytes() const { return ring_.bytes(); }
  [[nodiscard]] std::int64_t overhead_bytes() const { return 0; }

 private:
  struct Slot {
    Transfer transfer;
    std::vector<Work> works;        ///< messages on their way to this rank
    std::vector<Work> passed_on{};  ///< messages on their way to the next set
  };

  void post(std::size_t number);
  void receive(Slot& slot, std::byte* to, std::int64_t bytes);
  void pass_on(std::size_t number);
  /// Calls visit(data, bytes) with the messages of chunk number `number`, in their order.
  template <class Visit>
  void for_each_message(std::size_t number, const Visit& visit);

  const LoadSetting& setting_;
  std::span<const Chunk> chunks_;
  ArenaWriter writer_;
  StagingRing ring_;
  std::vector<Slot> slots_;
  std::vector<Transfer> transfers_;
  std::size_t posted_ = 0;
};

}  // namespace sluice
