#include "process/input_lines.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace sluice {

InputLines::Found InputLines::next(std::string& line) {
  line.clear();
  if (take(line)) return Found::kLine;
  constexpr int kWaitMilliseconds = 1000;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, kWaitMilliseconds) <= 0) return Found::kNothing;
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count > 0) {
    text_.append(bytes.data(), static_cast<std::size_t>(count));
    return take(line) ? Found::kLine : Found::kNothing;
  }
  if (count < 0 && errno == EINTR) return Found::kNothing;
  line = std::exchange(text_, "");
  return line.empty() ? Found::kEnd : Found::kLine;
}

bool InputLines::take(std::string& line) {
  const std::size_t end = text_.find('\n');
  if (end == std::string::npos) return false;
  line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return true;
}

}  // namespace sluice
