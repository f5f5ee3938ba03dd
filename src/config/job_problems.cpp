#include "config/job_problems.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

void JobProblems::give(const std::string& key, const std::string& where) {
  where_[key] = where;
  refused_.insert(key);
}

void JobProblems::expect(bool holds, std::initializer_list<std::string> keys, const std::string& text) {
  if (holds) return;
  if (std::ranges::any_of(keys, [&](const std::string& key) { return refused_.contains(key); })) return;
  const std::string& first = *keys.begin();
  const auto place = where_.find(first);
  add(place == where_.end() ? file_name_ : place->second, "config.contradiction",
      fmt::format("{}: {}", first, text));
}

void JobProblems::expect_given(const std::string& key, const std::string& text) {
  if (!is_given(key)) add(file_name_, "config.missing_key", text);
}

void JobProblems::throw_if_any() const {
  if (problems_.empty()) return;
  std::string text = problems_.front().text;
  for (std::size_t i = 1; i < problems_.size(); ++i)
    text += fmt::format("\n{}", with_id(problems_[i].text, problems_[i].id));
  fail({ExitCode::kBadConfig, problems_.front().id}, "{}", text);
}

}  // namespace sluice
