#include "config/key_aliases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sluice {
namespace {

constexpr auto kAliases = std::to_array<KeyAlias>({
    {"train", "router_bias_update", "router_bias_update_rate"},
    {"guard", "most_left_out", "max_skipped_steps"},
    {"guard", "compare_every", "compare_ranks_every"},
    {"generate", "positions", "max_sequence_length"},
    {"generate", "sequences", "batch_sequences"},
    {"generate", "pass_tokens", "prefill_tokens"},
});

}  // namespace

std::span<const KeyAlias> key_aliases() { return kAliases; }

std::string_view current_key(std::string_view table, std::string_view key) {
  const auto* const found = std::ranges::find_if(
      kAliases, [&](const KeyAlias& alias) { return alias.table == table && alias.earlier == key; });
  return found == kAliases.end() ? key : found->key;
}

std::string current_name(std::string_view name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  if (dot == name.size()) return std::string(name);
  const std::string_view table = name.substr(0, dot);
  return fmt::format("{}.{}", table, current_key(table, name.substr(dot + 1)));
}

std::string earlier_name(std::string_view name) {
  for (const KeyAlias& alias : kAliases)
    if (name == fmt::format("{}.{}", alias.table, alias.key))
      return fmt::format("{}.{}", alias.table, alias.earlier);
  return std::string(name);
}

}  // namespace sluice
