#include "transfers.hpp"

#include "runtime.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

namespace sluice::stand_in {

Transfers::~Transfers() {
  for (std::vector<float>* part : scratch_) delete part;
}

void Transfers::send(const void* data, std::size_t bytes, int to) {
  sends_.push_back({static_cast<std::byte*>(readable(data)), bytes, to});
}

void Transfers::receive(void* data, std::size_t bytes, int from) {
  receives_.push_back({static_cast<std::byte*>(readable(data)), bytes, from});
}

std::vector<float>& Transfers::scratch(std::size_t count) {
  return *scratch_.emplace_back(new std::vector<float>(count));
}

template <class Move>
bool Transfers::advance(std::vector<Part>& parts, Move move) {
  bool moved = false;
  std::set<int> busy;
  for (Part& part : parts) {
    if (part.done == part.bytes || !busy.insert(part.peer).second) continue;
    const std::size_t count = move(part);
    part.done += count;
    moved = moved || count > 0;
  }
  return moved;
}

bool Transfers::is_done() const {
  const auto done = [](const Part& part) { return part.done == part.bytes; };
  return std::ranges::all_of(sends_, done) && std::ranges::all_of(receives_, done);
}

void Transfers::run(Channels& channels, int rank, const std::atomic<bool>& is_aborted) {
  for (const auto& step : before_) step();
  while (!is_done()) {
    if (is_aborted) return;
    const bool sent = advance(sends_, [&](Part& part) {
      return channels.between(rank, part.peer).write(part.data + part.done, part.bytes - part.done);
    });
    const bool received = advance(receives_, [&](Part& part) {
      return channels.between(part.peer, rank).read(part.data + part.done, part.bytes - part.done);
    });
    if (!sent && !received) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  for (const auto& step : after_) step();
}

}  // namespace sluice::stand_in
