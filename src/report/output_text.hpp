// A large text file, written from front to back.
#pragma once

#include "base/bytes.hpp"
#include "io/file.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// A text file that replaces an earlier one in close(); without close() nothing of it stays. Error(kIo).
class OutputText {
 public:
  explicit OutputText(std::filesystem::path path);
  OutputText(const OutputText&) = delete;
  ~OutputText();

  void write(std::string_view text);
  void close();

 private:
  void flush();

  std::filesystem::path path_, unfinished_;
  std::optional<OutputFile> file_;
  std::string buffer_;
  std::int64_t offset_ = 0;
};

}  // namespace sluice
