// Operations of several rounds that go on while their rank waits for others. Internal to src/comm.
#pragma once

#include "comm/wait.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {

/// What a rank has started and not finished; shared by the communicators that were split from one.
class Background {
 public:
  void add(Pollable& operation) { operations_.push_back(&operation); }
  void remove(const Pollable& operation) { std::erase(operations_, &operation); }
  void advance() {
    for (Pollable* operation : operations_) operation->test();
  }

 private:
  std::vector<Pollable*> operations_;
};

/// wait_for(), with the background advanced at each poll.
inline void wait_for(Pollable& awaited, Background& background, const WaitLimit& limit,
                     const Operation& operation) {
  class Both final : public Pollable {
   public:
    Both(Pollable& awaited, Background& background) : awaited_(awaited), background_(background) {}
    bool test() override {
      background_.advance();
      return awaited_.test();
    }
    [[nodiscard]] std::string missing() const override { return awaited_.missing(); }

   private:
    Pollable& awaited_;
    Background& background_;
  };
  Both both(awaited, background);
  wait_for(both, limit, operation);
}

}  // namespace sluice
