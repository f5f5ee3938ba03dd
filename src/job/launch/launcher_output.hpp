// Filter for mpirun's stderr: removes what ranks tell the launch, and holds back mpirun's own messages about
// an end until the launch knows whether it knows better.
#pragma once

#include "base/clock.hpp"
#include "job/launch/job_end.hpp"
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
  /// Handles output of mpirun and its ranks, and passes on to stderr what is neither a record nor a block
  /// between lines of dashes.
  void take(std::string_view text);
  /// Passes on blocks that are older than a few seconds and tell of no death; must be called repeatedly while
  /// the job runs.
  void pass_old_blocks();
  /// Passes on all blocks that were held back.
  void pass_blocks();
  void drop_blocks() { blocks_.clear(); }
  /// Drops blocks that only tell which rank ended first.
  void drop_deaths();

  /// Reports of ranks about the end of the job, the first one first.
  [[nodiscard]] const std::vector<RankRecord>& endings() const { return endings_; }
  /// Host of each rank that has told it.
  [[nodiscard]] const std::map<int, std::string>& hosts() const { return hosts_; }
  /// Last step that the ranks have saved; 0: none.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }
  /// First rank that has died according to mpirun.
  [[nodiscard]] std::optional<RankDeath> death() const;

 private:
  struct Block {
    std::string text;
    bool tells_of_death = false;
    Stopwatch age{};
  };

  void take_line(const std::string& line);
  void end_block();

  std::string partial_;  ///< incomplete line at the end of the output
  std::string block_;    ///< block whose end has not come yet
  bool is_in_block_ = false;
  std::vector<Block> blocks_;
  std::vector<RankRecord> endings_;
  std::map<int, std::string> hosts_;
  std::int64_t saved_step_ = 0;
  std::optional<RankDeath> death_;
  /// Whether a rank has told that it crashes, in the one line that it can still write.
  bool has_crash_ = false;
};

}  // namespace sluice
