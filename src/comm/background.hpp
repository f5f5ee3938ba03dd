// Operations that make progress while their rank waits for others, or computes. Internal to src/comm.
#pragma once

#include "comm/wait.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {

/// Operations that a rank has started and not finished; shared by communicators that were split from one
/// another.
class Background {
 public:
  /// Adds an operation of several rounds: a later round begins when the operation is tested.
  void add(Pollable& operation) { operations_.push_back(&operation); }
  void remove(const Pollable& operation) { std::erase(operations_, &operation); }
  /// Adds an operation whose messages have all been posted.
  void add_messages(Pollable& messages) { messages_.push_back(&messages); }
  void remove_messages(const Pollable& messages) { std::erase(messages_, &messages); }

  /// Makes progress with operations in flight while a caller waits for another one. Messages need no test
  /// here: MPI progresses all of them whenever any is tested.
  void advance() {
    for (Pollable* operation : operations_) operation->test();
  }
  /// Makes progress with operations in flight while this rank computes. Calls MPI only if something is in
  /// flight, since a call that finds nothing to do may yield the core.
  void advance_all() {
    advance();
    for (Pollable* messages : messages_)
      if (!messages->test()) break;
  }

 private:
  std::vector<Pollable*> operations_, messages_;
};

/// Waits as wait_for(), and advances the background at each poll.
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
