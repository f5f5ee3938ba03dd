// End of a rank that has told nothing about it, as far as mpirun knows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct RankDeath {
  int rank = -1;  ///< rank that has ended; -1: not known
  std::string host{};
  int signal = 0;         ///< signal that has ended the rank; 0: it has ended by itself, with `code`
  int code = 0;           ///< exit status of the rank
  bool has_told = false;  ///< whether the rank has printed its stack, as one that crashes does
};

/// The death about which a block of mpirun between lines of dashes tells; nothing if it tells something else.
[[nodiscard]] std::optional<RankDeath> parse_rank_death(std::string_view block);

/// Death of a rank by mpirun's exit status alone, which is that of a rank.
[[nodiscard]] RankDeath death_of_status(int status);

/// Text about a death, with its possible causes: "it was ended by SIGKILL without a word: ...".
[[nodiscard]] std::string death_text(const RankDeath& death);

}  // namespace sluice
