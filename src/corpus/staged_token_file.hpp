// A token file that appears complete under its name, or not at all.
#pragma once

#include "data/token_writer.hpp"

#include <filesystem>
#include <optional>

namespace sluice::corpus {

/// A token file under a hidden name until it is complete.
class StagedTokenFile {
 public:
  /// Begins a file beside `target` under a hidden name. Error(kUsage) if `target` exists; Error(kIo) if its
  /// directory does not, or the system refuses.
  explicit StagedTokenFile(const std::filesystem::path& target);
  StagedTokenFile(const StagedTokenFile&) = delete;
  StagedTokenFile& operator=(const StagedTokenFile&) = delete;
  ~StagedTokenFile();  ///< removes a file that was not committed

  [[nodiscard]] TokenWriter& writer() { return *writer_; }
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  [[nodiscard]] const std::filesystem::path& staging() const { return staging_; }
  /// Gives the finished, closed file its name. Error(kIo) if the system refuses, or if the name is taken by
  /// now.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path staging_;
  std::optional<TokenWriter> writer_;
};

}  // namespace sluice::corpus
