#include "io/blocks/write_behind.hpp"

#include "base/round.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace sluice {
namespace {

OutputFile open_target(const std::filesystem::path& path, WriteBehind::Target target, bool& is_direct) {
  if (target == WriteBehind::Target::kFoundFile) return OutputFile::open(path);
  std::optional<OutputFile> direct = OutputFile::create_direct(path);
  is_direct = direct.has_value();
  return direct ? std::move(*direct) : OutputFile::create(path);
}

}  // namespace

WriteBehind::WriteBehind(const std::filesystem::path& path, Target target, std::int64_t window_bytes)
    : window_bytes_(window_bytes),
      file_(open_target(path, target, is_direct_)),
      ring_("writes a file", {.slots = 1}, [this](std::size_t, std::size_t) { write_now(block_); }) {}

void WriteBehind::write(const WrittenBlock& block) {
  ring_.wait();
  block_ = block;
  ring_.give();
}

/// Writes a block, on the writing thread.
void WriteBehind::write_now(const WrittenBlock& block) {
  const std::int64_t bytes = std::ssize(block.data), length = bytes / block.lines;
  const std::int64_t end = block.offset + (block.lines - 1) * block.stride + length;
  end_ = std::max(end_, end);
  if (is_direct_) {
    const std::int64_t whole = round_up(bytes, InputFile::kBlockBytes);
    return file_.write_at(block.offset, {block.data.data(), static_cast<std::size_t>(whole)});
  }
  for (std::int64_t line = 0; line < block.lines; ++line)
    file_.write_at(block.offset + line * block.stride,
                   {block.data.data() + line * length, static_cast<std::size_t>(length)});
  if (window_bytes_ == 0) return;
  if (window_.count() == 0) window_ = {block.offset, block.offset};
  window_ = {std::min(window_.begin, block.offset), std::max(window_.end, end)};
  if (window_.count() >= window_bytes_) turn_window();
}

/// Begins writeback of the full window and waits for the window before, so that dirty pages stay bounded.
void WriteBehind::turn_window() {
  file_.start_writeback(window_.begin, window_.count());
  file_.drop_written(previous_.begin, previous_.count());
  previous_ = std::exchange(window_, {});
}

void WriteBehind::close() {
  ring_.wait();
  if (is_direct_) file_.resize(end_);  // drops what the last block has beyond the file's end
  turn_window();
  turn_window();
  file_.close();
}

}  // namespace sluice
