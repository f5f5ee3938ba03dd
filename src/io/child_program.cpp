#include "io/child_program.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kLongestLine = kGiB;

/// A pair of connected sockets: writing to a program that has ended raises no SIGPIPE in one.
Pipe connected_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(ExitCode::kTooLittle, "no connection to another program: {}", errno_text(errno));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Waits until the stream can be read, or written; false at the deadline.
bool await(int stream, short events, const Deadline& deadline) {
  for (;;) {
    pollfd waited{stream, events, 0};
    const double milliseconds = std::clamp(deadline.seconds_left() * 1000 + 1, 0.0, 1e6);
    const int ready = ::poll(&waited, 1, static_cast<int>(milliseconds));
    if (ready > 0) return true;
    if (ready < 0 ? errno != EINTR : deadline.passed()) return false;
  }
}

/// Adds what is available at once to a text, up to 64 KiB; false at the stream's end.
bool read_now(int stream, std::string& text) {
  std::array<char, 64 * kKiB> part;
  const ssize_t count = ::read(stream, part.data(), part.size());
  if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

ChildProgram::ChildProgram(const std::vector<std::string>& words, ErrorOutput errors, ProcessGroup group) {
  Pipe input = connected_sockets(), output = make_pipe();
  Pipe kept = errors == ErrorOutput::kKept ? make_pipe() : Pipe();
  const Pipe& error = errors == ErrorOutput::kIntoOutput ? output : kept;
  process_.emplace(words, ChildStreams{input.reading.get(), output.writing.get(), error.writing.get()},
                   group);
  for (const Pipe* pipe : {&output, &kept}) ::fcntl(pipe->reading.get(), F_SETFL, O_NONBLOCK);
  input_ = std::move(input.writing);
  output_ = std::move(output.reading);
  errors_ = std::move(kept.reading);
}

std::int64_t ChildProgram::write(std::string_view text) {
  const ssize_t count = ::send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) return count;
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

void ChildProgram::read_output() {
  if (output_.get() < 0) return;
  if (!read_now(output_.get(), text_) || text_.size() > kLongestLine) output_ = FileDescriptor(-1);
}

std::optional<std::string> ChildProgram::next_line() {
  read_output();
  const std::size_t end = text_.find('\n', searched_);
  searched_ = end == text_.npos ? text_.size() : 0;
  if (end == text_.npos) return std::nullopt;
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

std::optional<std::string> ChildProgram::ask(std::string_view line, const Deadline& deadline) {
  const std::string request = std::string(line) + '\n';
  for (std::string_view left = request; !left.empty();) {
    const std::int64_t count = write(left);
    if (count < 0 || (count == 0 && !await(input_.get(), POLLOUT, deadline))) return std::nullopt;
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  for (;;) {
    if (std::optional<std::string> answer = next_line()) return answer;
    if (output_.get() < 0 || !await(output_.get(), POLLIN, deadline)) return std::nullopt;
  }
}

std::optional<std::string> ChildProgram::rest_of_output(std::size_t most_bytes, const Deadline& deadline) {
  while (output_.get() >= 0) {
    if (!await(output_.get(), POLLIN, deadline)) return std::nullopt;
    read_output();
    text_.resize(std::min(text_.size(), most_bytes));
  }
  return std::exchange(text_, "");
}

std::string ChildProgram::error_output() {
  std::string text;
  read_now(errors_.get(), text);
  return text;
}

std::optional<int> ChildProgram::wait_until(const Deadline& deadline) {
  const std::optional<int> status = process_->wait_until(deadline);
  return status ? std::optional(exit_status(*status)) : std::nullopt;
}

std::optional<ProgramResult> run_program(const std::vector<std::string>& words, double limit_seconds) try {
  constexpr std::size_t kMostOutput = 64 * kKiB;
  const Deadline deadline(limit_seconds);
  ChildProgram program(words, ErrorOutput::kIntoOutput);
  program.end_input();
  std::optional<std::string> output = program.rest_of_output(kMostOutput, deadline);
  const std::optional<int> status = output ? program.wait_until(deadline) : std::nullopt;
  if (!status) return std::nullopt;
  return ProgramResult{*status, std::move(*output)};
} catch (const Error&) {  // the program could not be started, or there was no pipe
  return std::nullopt;
}

}  // namespace sluice
