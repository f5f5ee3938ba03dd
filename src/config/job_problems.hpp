// Problems of a job file, gathered so that its user repairs all of them at once.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Problems of one job file and of what overrides it, and the places of its keys, such as "job.toml:3:1".
class JobProblems {
 public:
  explicit JobProblems(std::string file_name) : file_name_(std::move(file_name)) {}

  /// Adds a problem of the kind `id`.
  void add(const std::string& where, const FailureId& id, const std::string& text) {
    problems_.push_back({id, where + ": " + text});
  }
  [[nodiscard]] std::size_t count() const { return problems_.size(); }

  /// Notes that `key` is given at `where`, for the first time or again. It counts as refused until accept().
  void give(const std::string& key, const std::string& where);
  void accept(const std::string& key) { refused_.erase(key); }
  [[nodiscard]] bool is_given(const std::string& key) const { return where_.contains(key); }

  /// Adds `text`, a contradiction, at the last place of the first key, or at the file if it is not given,
  /// unless `holds` or one of the keys is refused, which has a problem of its own.
  void expect(bool holds, std::initializer_list<std::string> keys, const std::string& text);
  /// Adds `text` at the file unless `key` is given.
  void expect_given(const std::string& key, const std::string& text);

  /// Error(kBadConfig) with every problem, one a line, and the id of the first one, if there is any. The lines
  /// of the others end with their own.
  void throw_if_any() const;

 private:
  std::string file_name_;
  struct Problem {
    FailureId id;
    std::string text;
  };
  std::vector<Problem> problems_;
  std::map<std::string, std::string> where_;  ///< last place in the job of every key that it gives
  std::set<std::string> refused_;             ///< keys whose last value has a problem
};

}  // namespace sluice
