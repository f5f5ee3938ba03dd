#include "faults.hpp"

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

namespace sluice::stand_in {
namespace {

int number(const std::string& text) { return static_cast<int>(std::strtol(text.c_str(), nullptr, 10)); }

/// "hang:1:3" as "hang" and rank 1 -> 3.
const std::map<std::string, std::map<int, int>>& faults() {
  static const auto* const all = [] {
    auto* const parsed = new std::map<std::string, std::map<int, int>>;
    const char* const text = std::getenv("SLUICE_STAND_IN_FAULT");
    std::istringstream list(text == nullptr ? "" : text);
    for (std::string fault; std::getline(list, fault, ',');) {
      std::istringstream words(fault);
      std::string name, rank, nth;
      std::getline(words, name, ':');
      std::getline(words, rank, ':');
      std::getline(words, nth, ':');
      (*parsed)[name][number(rank)] = nth.empty() ? 1 : number(nth);
    }
    return parsed;
  }();
  return *all;
}

}  // namespace

bool asks_for(std::string_view fault, int rank) {
  static std::mutex mutex;
  static auto* const counts = new std::map<std::string, int>;
  const auto found = faults().find(std::string(fault));
  if (found == faults().end()) return false;
  const std::lock_guard lock(mutex);
  const int count = ++(*counts)[found->first];
  const auto at = found->second.find(rank);
  return at != found->second.end() && at->second == count;
}

void hang() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace sluice::stand_in
