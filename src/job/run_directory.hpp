// The directory of one run: resolved job file, status, metrics, logs. Written by rank 0, and by a rank that
// fails.
#pragma once

#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "io/file.hpp"
#include "job/failure.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace sluice {

class RunDirectory {
 public:
  /// Rank 0 creates the directory, takes its lock and writes job.toml and status.json; every rank begins a
  /// log in logs/. Error(kBadConfig) if another job holds the lock, or if an earlier run left a metrics file
  /// and job.overwrite is false; Error(kIo) if the system refuses.
  RunDirectory(const JobConfig& config, const Communicator& comm);
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// A file of this run: relative paths are inside the directory.
  [[nodiscard]] std::filesystem::path file(const std::filesystem::path& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void set_status(const std::string& state, std::int64_t step = -1);
  /// From any rank that sees the directory.
  void set_failed(const Failure& failure) noexcept;

 private:
  void create(const JobConfig& config);
  void take_lock();
  void make_room_for_results(const JobConfig& config) const;
  void write_status(const std::string& state, std::int64_t step, const Failure* failure);

  std::filesystem::path path_;
  bool is_root_;
  int world_size_;
  std::string started_;
  FileDescriptor lock_{-1};
};

}  // namespace sluice
