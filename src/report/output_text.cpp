#include "report/output_text.hpp"

#include "base/error.hpp"

#include <span>
#include <system_error>
#include <utility>

namespace sluice {
namespace fs = std::filesystem;

OutputText::OutputText(fs::path path) : path_(std::move(path)), unfinished_(path_) {
  unfinished_ += ".unfinished";
  std::error_code error;
  fs::remove(unfinished_, error);
  file_ = OutputFile::create(unfinished_);
}

OutputText::~OutputText() {
  if (!file_) return;
  file_.reset();
  std::error_code error;
  fs::remove(unfinished_, error);
}

void OutputText::write(std::string_view text) {
  buffer_ += text;
  if (std::ssize(buffer_) >= kMiB) flush();
}

void OutputText::flush() {
  file_->write_at(offset_, std::as_bytes(std::span(buffer_)));
  offset_ += std::ssize(buffer_);
  buffer_.clear();
}

void OutputText::close() {
  flush();
  file_->close();
  std::error_code error;
  fs::rename(unfinished_, path_, error);
  if (error)
    fail(ExitCode::kIo, "cannot rename {} to {}: {}", unfinished_.string(), path_.string(), error.message());
  file_.reset();
}

}  // namespace sluice
