#include "job/launch/handover.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "job/launch/handed_file.hpp"
#include "job/launch/host_command.hpp"
#include "weights/companion_files.hpp"

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

/// The launch's side of one handover.
class Handover {
 public:
  Handover(const std::string& host, const std::vector<std::string>& agent,
           const std::function<void()>& on_wait)
      : host_(host), command_(host, agent, "receive-files"), on_wait_(on_wait) {}

  std::int64_t run(const std::vector<fs::path>& paths) {
    std::vector<HandedFile> files;
    Json order{{"directory", fs::current_path().string()}, {"files", Json::array()}};
    for (const fs::path& path : paths) {
      files.push_back(HandedFile::describe(path));
      order["files"].push_back(files.back().to_json());
    }
    send(order.dump() + "\n");
    std::int64_t bytes = 0;
    const std::vector<std::size_t> lacks = await_answer();
    for (const std::size_t number : lacks) {
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
      if (count < 0) static_cast<void>(await_answer());  // which tells why
      if (count > 0) {
        text.remove_prefix(static_cast<std::size_t>(count));
        since_progress_.restart();
      }
      if (const std::optional<Json> answer = look(POLLOUT, count == 0 ? kPollMilliseconds : 0))
        static_cast<void>(take(host_, *answer));
    }
  }

  /// Numbers of the files that the host lacks. Errors as it tells them.
  std::vector<std::size_t> await_answer() {
    for (;;)
      if (const std::optional<Json> answer = look(0, kPollMilliseconds)) return take(host_, *answer);
  }

  static std::vector<std::size_t> take(const std::string& host, const Json& answer) {
    if (answer.contains("refused"))
      fail(static_cast<ExitCode>(answer.value("code", static_cast<int>(ExitCode::kInternal))),
           "launch: {}: {}", host, answer.value("refused", ""));
    return answer.value("lacks", std::vector<std::size_t>{});
  }

  /// Waits that long until the command speaks, or, with POLLOUT, takes more; its answer, if there is a whole
  /// one.
  std::optional<Json> look(short events_of_input, int milliseconds) {
    std::array<pollfd, 2> waited{pollfd{command_.output(), POLLIN, 0},
                                 pollfd{events_of_input != 0 ? command_.input() : -1, events_of_input, 0}};
    ::poll(waited.data(), waited.size(), milliseconds);
    on_wait_();
    text_ += command_.read();
    if (const std::size_t end = text_.find('\n'); end != text_.npos) {
      const Json answer = Json::parse(text_.substr(0, end), nullptr, /*allow_exceptions=*/false);
      text_.erase(0, end + 1);
      if (answer.is_object()) return answer;  // other lines are a login script's
    }
    if (command_.output() < 0) command_.why_not_done().throw_if_failed();
    if (since_progress_.seconds() > kIdleSeconds)
      fail(ExitCode::kInternal, "launch: {} has taken nothing of the job's files for {:.0f} s", host_,
           kIdleSeconds);
    return std::nullopt;
  }

  const std::string& host_;
  HostCommand command_;
  const std::function<void()>& on_wait_;
  std::string text_;
  Stopwatch since_progress_;
};

void add_if_there(std::vector<fs::path>& files, const fs::path& file) {
  if (file.empty() || !path_exists(file) || directory_exists(file)) return;
  files.push_back(fs::absolute(file).lexically_normal());
}

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

Json HandedFile::to_json() const {
  return {{"path", path.string()}, {"bytes", bytes}, {"changed", changed}, {"digest", digest}};
}

HandedFile HandedFile::from_json(const Json& json) {
  return {json.at("path").get<std::string>(), json.at("bytes"), json.at("changed"), json.at("digest")};
}

std::vector<fs::path> files_for_all_hosts(const fs::path& job_file, const JobConfig& config) {
  std::vector<fs::path> files;
  add_if_there(files, job_file);
  const fs::path& model = config.model.path;
  if (path_exists(model / "config.json") && !is_saved_step(model))
    for (const CompanionFile& companion : companion_files(model).files) add_if_there(files, companion.path);
  add_if_there(files, config.data.tokens);
  for (const SourceSettings& source : config.data.source) add_if_there(files, source.tokens);
  for (const fs::path& tokens : config.evaluate.tokens) add_if_there(files, tokens);
  return files;
}

std::int64_t hand_over(const std::string& host, const std::vector<std::string>& agent,
                       const std::vector<fs::path>& files, const std::function<void()>& on_wait) {
  return Handover(host, agent, on_wait).run(files);
}

}  // namespace sluice
