// The stderr of mpirun, line by line: what ranks tell the launch is taken out, and what mpirun itself says of
// an end waits for what the launch knows better.
#pragma once

#include "base/clock.hpp"
#include "job/launch/rank_death.hpp"
#include "job/launch/rank_record.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class LauncherOutput {
 public:
  /// Takes what mpirun and its ranks have written, and passes on to stderr what is neither a record nor a
  /// block between lines of dashes.
  void take(std::string_view text);
  /// Passes on blocks that are older than a few seconds and tell of no death; call it now and then while the
  /// job runs.
  void pass_old_blocks();
  /// Passes on all blocks.
  void pass_blocks();
  void drop_blocks() { blocks_.clear(); }
  /// Drops those that only tell which rank ended first.
  void drop_deaths();

  /// How ranks said that the job ends, the first one first.
  [[nodiscard]] const std::vector<RankRecord>& endings() const { return endings_; }
  /// The host of each rank that has said where it is.
  [[nodiscard]] const std::map<int, std::string>& hosts() const { return hosts_; }
  /// The number of the last step that the ranks have saved; 0: none.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }
  /// The first rank of which mpirun says that it has died.
  [[nodiscard]] std::optional<RankDeath> death() const;

 private:
  struct Block {
    std::string text;
    bool tells_of_death = false;
    Stopwatch age{};
  };

  void take_line(const std::string& line);
  void end_block();

  std::string partial_;  ///< line whose end has not come yet
  std::string block_;    ///< block whose end has not come yet
  bool is_in_block_ = false;
  std::vector<Block> blocks_;
  std::vector<RankRecord> endings_;
  std::map<int, std::string> hosts_;
  std::int64_t saved_step_ = 0;
  std::optional<RankDeath> death_;
  /// Whether a rank has said that it crashes, in the one line that it can still write.
  bool has_crash_ = false;
};

}  // namespace sluice
