#include "launch/handover.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "io/file.hpp"
#include "launch/host_command.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kIdleSeconds = 30;
constexpr int kPollMilliseconds = 200;

/// Launch's side of a handover to one host.
class Handover {
 public:
  Handover(const std::string& host, const std::vector<std::string>& agent,
           const std::function<void()>& on_wait)
      : host_(host), command_(host, agent, "receive-files"), on_wait_(on_wait) {}

  std::int64_t run(const std::vector<JobInput>& inputs) {
    std::vector<HandedFile> files;
    Json order{{"directory", fs::current_path().string()}, {"files", Json::array()}};
    for (const JobInput& input : inputs) {
      files.push_back(HandedFile::describe(input));
      order["files"].push_back(files.back());
    }
    send(order.dump() + "\n");
    std::int64_t bytes = 0;
    const std::vector<std::size_t> lacks = await_answer();
    for (const std::size_t number : lacks) {
      if (const std::optional<std::string>& content = inputs.at(number).content)
        send(*content);
      else
        send_file(files.at(number));
      bytes += files.at(number).bytes;
    }
    if (!lacks.empty()) static_cast<void>(await_answer());
    return bytes;
  }

 private:
  void send_file(const HandedFile& file) {
    const InputFile in = InputFile::open(file.path);
    std::string block;
    for (std::int64_t begin = 0; begin < file.bytes; begin += std::ssize(block)) {
      block.resize(static_cast<std::size_t>(std::min<std::int64_t>(kMiB, file.bytes - begin)));
      in.read_at(begin, std::as_writable_bytes(std::span(block)));
      send(block);
    }
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const std::int64_t count = command_.write(text);
      if (count < 0) static_cast<void>(await_answer());  // throws the reason
      if (count > 0) {
        text.remove_prefix(static_cast<std::size_t>(count));
        since_progress_.restart();
      }
      if (const std::optional<Json> answer = look(POLLOUT, count == 0 ? kPollMilliseconds : 0))
        static_cast<void>(take(host_, *answer));
    }
  }

  /// Returns the numbers of the files that the host lacks. Throws the errors that the host reports.
  std::vector<std::size_t> await_answer() {
    for (;;)
      if (const std::optional<Json> answer = look(0, kPollMilliseconds)) return take(host_, *answer);
  }

  static std::vector<std::size_t> take(const std::string& host, const Json& answer) {
    if (answer.contains("refused"))
      fail({static_cast<ExitCode>(answer.value("code", static_cast<int>(ExitCode::kInternal))),
            FailureId(answer.value("id", "launch.host"))},
           "launch: {}: {}", host, answer.value("refused", ""));
    return answer.value("lacks", std::vector<std::size_t>{});
  }

  /// Waits `milliseconds` until the command writes or, with POLLOUT, accepts more; returns its answer if
  /// there is a complete one.
  std::optional<Json> look(short events_of_input, int milliseconds) {
    std::array<pollfd, 2> waited{pollfd{command_.output(), POLLIN, 0},
                                 pollfd{events_of_input != 0 ? command_.input() : -1, events_of_input, 0}};
    ::poll(waited.data(), waited.size(), milliseconds);
    on_wait_();
    if (const std::optional<std::string> line = command_.next_line()) {
      Json answer = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
      if (answer.is_object()) return answer;  // other lines are output of a login script
    }
    if (command_.output() < 0) command_.why_not_done().throw_if_failed();
    if (since_progress_.seconds() > kIdleSeconds)
      fail({ExitCode::kInternal, "launch.host"},
           "launch: {} has taken nothing of the job's files for {:.0f} s", host_, kIdleSeconds);
    return std::nullopt;
  }

  const std::string& host_;
  HostCommand command_;
  const std::function<void()>& on_wait_;
  Stopwatch since_progress_;
};

}  // namespace

HandedFile HandedFile::describe(const fs::path& path) {
  constexpr std::int64_t kMostProven = 64 * kMiB;
  HandedFile file{
      path, InputFile::open(path).size_bytes(),
      std::chrono::duration_cast<std::chrono::nanoseconds>(fs::last_write_time(path).time_since_epoch())
          .count()};
  if (file.bytes <= kMostProven) file.digest = digest_of(read_text_file(path, kMostProven)).hex();
  return file;
}

HandedFile HandedFile::describe(const JobInput& input) {
  HandedFile file = describe(input.path);
  file.stays = input.stays;
  if (!input.content) return file;
  file.bytes = std::ssize(*input.content);
  file.digest = digest_of(*input.content).hex();
  return file;
}

std::int64_t hand_over(const std::string& host, const std::vector<std::string>& agent,
                       const std::vector<JobInput>& files, const std::function<void()>& on_wait) {
  return Handover(host, agent, on_wait).run(files);
}

}  // namespace sluice
