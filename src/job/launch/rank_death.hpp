// How a rank has ended that told nothing of it, as far as mpirun knows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct RankDeath {
  int rank = -1;  ///< -1: not known
  std::string host{};
  int signal = 0;         ///< signal that has ended the rank; 0: it has ended by itself, with `code`
  int code = 0;           ///< exit status of the rank
  bool has_told = false;  ///< whether the rank has printed its stack, as one that crashes does
};

/// The death that a block of mpirun's between lines of dashes tells of; nothing where it tells of something
/// else.
[[nodiscard]] std::optional<RankDeath> parse_rank_death(std::string_view block);

/// Death of a rank by the exit status of mpirun alone, which is then that of a rank.
[[nodiscard]] RankDeath death_of_status(int status);

/// "it was ended by SIGKILL without a word: ...", with what that may come from.
[[nodiscard]] std::string death_text(const RankDeath& death);

}  // namespace sluice
