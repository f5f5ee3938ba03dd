// A directory for one test of several ranks.
#pragma once

#include "support/mpi_test.hpp"
#include "support/temporary_directory.hpp"

#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>

namespace sluice::test {

/// Rank 0's directory, known to every rank; goes when all are done with it.
class SharedDirectory {
 public:
  SharedDirectory() {
    if (test_world().rank() == 0) own_.emplace();
    path_ = test_world().broadcast_text(own_ ? own_->path().string() : "", 0);
  }
  ~SharedDirectory() {
    if (std::uncaught_exceptions() == 0) test_world().barrier();
  }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  /// Names in it, once every rank is here.
  [[nodiscard]] int count() const {
    test_world().barrier();
    const auto count = std::distance(std::filesystem::directory_iterator(path_), {});
    test_world().barrier();
    return static_cast<int>(count);
  }

 private:
  std::optional<test::TemporaryDirectory> own_;
  std::filesystem::path path_;
};

}  // namespace sluice::test
