#include "checkpoint/hosts/file_copy.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/block_writer.hpp"
#include "checkpoint/rank_file.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <utility>

namespace sluice {
namespace {

/// Most bytes that are taken from the connection at once.
constexpr std::int64_t kPieceBytes = 256 * kKiB;
/// Seconds that one address of a host, or a connected peer, may take to answer.
constexpr double kGreetingSeconds = 5;
/// Seconds that a thread which was asked to end may take.
constexpr double kEndSeconds = 10;
constexpr std::byte kWelcome{'w'};

std::string make_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Connects to one address; returns the connection if the right host answers.
TcpStream greet(const CopyTarget& target, const std::string& address, const TcpLimit& limit) {
  TcpStream stream =
      TcpStream::connect(address, target.port, {std::min(limit.seconds, kGreetingSeconds), limit.stop});
  stream.send(bytes_of(target.token));
  std::array<std::byte, 1> answer{};
  stream.receive(answer);
  stream.set_limit(limit);
  return stream;
}

/// Addresses in the order of trial: those that this host has too come last, because they lead back to it,
/// like addresses of a network inside each host.
std::vector<std::string> best_first(std::vector<std::string> addresses) {
  const std::vector<std::string> own = own_addresses();
  std::stable_partition(addresses.begin(), addresses.end(), [&](const std::string& address) {
    return std::ranges::find(own, address) == own.end();
  });
  return addresses;
}

TcpStream find(const CopyTarget& target, const TcpLimit& limit) {
  std::string reasons;
  for (const std::string& address : best_first(target.addresses)) {
    std::optional<TcpStream> stream;
    const Outcome outcome = outcome_of([&] { stream.emplace(greet(target, address, limit)); });
    if (stream) return std::move(*stream);
    reasons += "\n  " + outcome.text;
  }
  fail(ExitCode::kIo, "the host that is to keep a copy of {} cannot be reached over TCP:{}",
       rank_file_name(target.rank), reasons);
}

}  // namespace

std::string CopyTarget::to_text() const {
  ByteWriter out;
  out.number(rank);
  out.number(port);
  out.text(token);
  for (const std::string& address : addresses) out.text(address);
  return out.take();
}

CopyTarget CopyTarget::from_text(std::string_view text) {
  ByteReader in(text);
  CopyTarget target;
  target.rank = static_cast<int>(in.number());
  target.port = static_cast<int>(in.number());
  target.token = in.text();
  while (!in.at_end()) target.addresses.push_back(in.text());
  return target;
}

IncomingCopy::IncomingCopy(int of, int rank, double limit_seconds)
    : target_{of, listener_.port(), make_token(), own_addresses()},
      rank_(rank),
      limit_{limit_seconds, stop_.get_token()} {}

void IncomingCopy::start(const std::shared_ptr<IncomingCopy>& copy, const std::filesystem::path& directory) {
  copy->thread_ = std::thread([copy, directory] { copy->run(directory); });
}

void IncomingCopy::stop() {
  stop_.request_stop();
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  const bool ends =
      ended_.wait_for(lock, std::chrono::duration<double>(kEndSeconds), [&] { return has_ended_; });
  lock.unlock();
  if (ends)
    thread_.join();
  else
    thread_.detach();
}

bool IncomingCopy::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void IncomingCopy::wait(double seconds) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return has_ended_; });
  outcome_.throw_if_failed();
}

void IncomingCopy::require(const SavedFile& file) const {
  if (digests_ != file.blocks)
    fail(ExitCode::kIo, "the copy of {} on another host is not what was sent", file.name);
}

void IncomingCopy::run(const std::filesystem::path& directory) {
  Outcome outcome = outcome_of([&] { take(directory); });
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    outcome_ = std::move(outcome);
  }
  ended_.notify_all();
}

/// Accepts the sender's connection; closes those of strangers.
TcpStream IncomingCopy::accept_sender() {
  for (;;) {
    TcpStream stream = listener_.accept({std::min(limit_.seconds, kGreetingSeconds), limit_.stop});
    std::string token(target_.token.size(), '\0');
    const Outcome outcome = outcome_of([&] { stream.receive(std::as_writable_bytes(std::span(token))); });
    if (limit_.stop.stop_requested()) fail(outcome, "{}", outcome.text);
    if (outcome.failed() || token != target_.token) continue;
    stream.set_limit(limit_);
    stream.send(std::array{kWelcome});
    return stream;
  }
}

void IncomingCopy::take(const std::filesystem::path& directory) {
  TcpStream stream = accept_sender();
  std::int64_t left = 0;
  stream.receive(std::as_writable_bytes(std::span(&left, 1)));
  BlockWriter out(directory / rank_file_name(target_.rank), rank_);
  std::vector<std::byte> piece(static_cast<std::size_t>(kPieceBytes));
  while (left > 0) {
    fault_point("checkpoint.copy", rank_);
    const auto part = std::span(piece).first(static_cast<std::size_t>(std::min(left, kPieceBytes)));
    stream.receive(part);
    out.append(part);
    left -= std::ssize(part);
  }
  out.close();
  digests_ = out.digests();
}

void send_copy(const std::filesystem::path& directory, const SavedFile& file, const CopyTarget& target,
               int rank, const TcpLimit& limit, const std::function<void()>& on_block) {
  TcpStream stream = find(target, limit);
  stream.send(std::as_bytes(std::span(&file.bytes, 1)));
  const BlockFile in(directory, file);
  const MemoryBlock block =
      allocate(MemoryKind::kPrivate, kSavedBlockBytes, "a block that is copied to another host");
  for (std::int64_t number = 0; number < file.block_count(); ++number) {
    fault_point("checkpoint.send", rank);
    in.load(number, {block.data(), static_cast<std::size_t>(kSavedBlockBytes)});
    stream.send({block.data(), static_cast<std::size_t>(file.block_bytes(number).count())});
    on_block();
  }
}

}  // namespace sluice
