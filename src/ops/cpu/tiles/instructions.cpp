#include "ops/cpu/tiles/instructions.hpp"

#include <algorithm>
#include <cstdlib>

namespace sluice::ops::cpu {

bool user_allows(std::initializer_list<std::string_view> names) {
  const char* const most = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string_view name = most == nullptr ? "" : most;
  return name.empty() || name == "ALL" || name == "DEFAULT" ||
         std::ranges::any_of(names, [&](std::string_view held) { return name.find(held) != name.npos; });
}

}  // namespace sluice::ops::cpu
