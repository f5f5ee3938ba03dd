#include "comm/mpi/mpi_communicator.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/range.hpp"
#include "comm/mpi/check.hpp"
#include "comm/position.hpp"

#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

class MpiWork final : public Work::Impl {
 public:
  MpiWork(MpiRequests requests, std::shared_ptr<const WaitLimit> limit,
          std::shared_ptr<Background> background, const Operation& operation)
      : requests_(std::move(requests)),
        limit_(std::move(limit)),
        background_(std::move(background)),
        operation_(operation) {
    background_->add_messages(requests_);
  }
  ~MpiWork() override { background_->remove_messages(requests_); }
  MpiWork(const MpiWork&) = delete;
  MpiWork& operator=(const MpiWork&) = delete;
  bool test() override { return requests_.test(); }
  void wait() override { wait_for(requests_, *background_, *limit_, operation_); }

 private:
  MpiRequests requests_;
  std::shared_ptr<const WaitLimit> limit_;
  std::shared_ptr<Background> background_;
  Operation operation_;
};

int tag_upper_bound() {
  void* bound = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &found),
            "MPI_Comm_get_attr");
  constexpr int kSmallestAllowed = 32767;
  return found ? *static_cast<int*>(bound) : kSmallestAllowed;
}

void check_host_memory(StreamHandle stream) {
  SLUICE_ASSERT(stream == nullptr,
                "the MPI backend moves host memory, but was given an accelerator's stream");
}

/// Copies a rank's own part, unless it is in place already.
void copy_own(const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm parent, std::shared_ptr<Watchdog> watchdog, WaitLimit limit,
                                 std::int64_t message_limit_bytes, std::shared_ptr<Background> background)
    : watchdog_(std::move(watchdog)),
      limit_(std::make_shared<WaitLimit>(std::move(limit))),
      message_limit_bytes_(message_limit_bytes),
      background_(std::move(background)) {
  duplicate(parent);
}

MpiCommunicator::MpiCommunicator(MPI_Comm parent, const MpiCommunicator& whole)
    : watchdog_(whole.watchdog_),
      limit_(whole.limit_),
      is_part_(true),
      message_limit_bytes_(whole.message_limit_bytes_),
      background_(whole.background_) {
  duplicate(parent);
}

void MpiCommunicator::duplicate(MPI_Comm parent) {
  SLUICE_ASSERT(message_limit_bytes_ > 0 && message_limit_bytes_ <= std::numeric_limits<int>::max(),
                "a limit of {} bytes for messages cannot be used", message_limit_bytes_);
  const Watchdog::Guard guard(*watchdog_, "MPI_Comm_dup", limit_->seconds);
  check_mpi(MPI_Comm_dup(parent, &messages_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_dup(parent, &collectives_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(messages_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(messages_, &size_), "MPI_Comm_size");
  numbered_tags_ = tag_upper_bound() / kKinds;
}

MpiCommunicator::~MpiCommunicator() {
  // Freeing is collective: while an exception unwinds, other ranks may never come.
  if (std::uncaught_exceptions() > 0) return;
  const Watchdog::Guard guard(*watchdog_, "MPI_Comm_free", limit_->seconds);
  log_mpi(MPI_Comm_free(&messages_), "MPI_Comm_free");
  log_mpi(MPI_Comm_free(&collectives_), "MPI_Comm_free");
}

void MpiCommunicator::set_deadline(std::string_view section, double limit_seconds) {
  if (is_part_) {
    limit_ = std::make_shared<WaitLimit>(WaitLimit{std::string(section), limit_seconds});
    return;
  }
  *limit_ = {std::string(section), limit_seconds};
  position::enter(section);
  watchdog_->set_section(section, limit_seconds);
}

void MpiCommunicator::advance() { background_->advance_all(); }

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  SLUICE_ASSERT(color >= 0, "a split by color {}, expected 0 or more", color);
  MPI_Comm part = MPI_COMM_NULL;
  {
    const Watchdog::Guard guard(*watchdog_, "MPI_Comm_split", limit_->seconds);
    check_mpi(MPI_Comm_split(collectives_, color, key, &part), "MPI_Comm_split");
  }
  auto result = std::make_unique<MpiCommunicator>(part, *this);
  const Watchdog::Guard guard(*watchdog_, "MPI_Comm_free", limit_->seconds);
  check_mpi(MPI_Comm_free(&part), "MPI_Comm_free");
  return result;
}

MpiCommunicator::Collective MpiCommunicator::begin(Kind kind) {
  static constexpr std::array<const char*, kKinds> kNames{
      "barrier",        "broadcast",      "all_gather",    "all_to_all", "reduce_scatter_sum",
      "all_reduce_sum", "all_reduce_sum", "all_reduce_max"};
  const int index = static_cast<int>(kind);
  const int number = static_cast<int>(collective_count_ % numbered_tags_);
  ++collective_count_;
  position::begin(kNames[static_cast<std::size_t>(index)], collective_count_);
  return {{kNames[static_cast<std::size_t>(index)], collective_count_, rank_}, number * kKinds + index};
}

Operation MpiCommunicator::begin_message(const char* name) {
  position::begin(name, ++message_count_);
  return {name, message_count_, rank_};
}

void MpiCommunicator::send_counted(MpiRequests& requests, const void* data, std::int64_t bytes, int to,
                                   int tag) {
  requests.send(data, bytes, to, tag);
  traffic_.sent_bytes += bytes;
  ++traffic_.sent_messages;
}

void MpiCommunicator::receive_counted(MpiRequests& requests, void* data, std::int64_t bytes, int from,
                                      int tag) {
  requests.receive(data, bytes, from, tag);
  traffic_.received_bytes += bytes;
}

Work MpiCommunicator::work(MpiRequests requests, const Operation& operation) const {
  return Work(std::make_unique<MpiWork>(std::move(requests), limit_, background_, operation));
}

Work MpiCommunicator::send(const void* data, std::int64_t bytes, int to, int tag, StreamHandle stream) {
  check_host_memory(stream);
  const Operation operation = begin_message("send");
  MpiRequests requests(messages_, message_limit_bytes_, operation);
  send_counted(requests, data, bytes, to, tag);
  return work(std::move(requests), operation);
}

Work MpiCommunicator::receive(void* data, std::int64_t bytes, int from, int tag, StreamHandle stream) {
  check_host_memory(stream);
  const Operation operation = begin_message("receive");
  MpiRequests requests(messages_, message_limit_bytes_, operation);
  receive_counted(requests, data, bytes, from, tag);
  return work(std::move(requests), operation);
}

void MpiCommunicator::barrier() {
  // Every rank sends to every rank: one hop, so that a rank that waits too long can name the missing ranks.
  const Collective collective = begin(Kind::kBarrier);
  MpiRequests requests = requests_of(collective);
  for (int step = 1; step < size_; ++step) {
    receive_counted(requests, nullptr, 0, (rank_ + size_ - step) % size_, collective.tag);
    send_counted(requests, nullptr, 0, (rank_ + step) % size_, collective.tag);
  }
  wait_for(requests, *background_, *limit_, collective.operation);
}

Work MpiCommunicator::broadcast(void* data, std::int64_t bytes, int root, StreamHandle stream) {
  check_host_memory(stream);
  const Collective collective = begin(Kind::kBroadcast);
  MpiRequests requests = requests_of(collective);
  if (rank_ != root) receive_counted(requests, data, bytes, root, collective.tag);
  // Sends straight to every rank, not along MPI's tree, so that the root can name the missing ranks.
  for (int step = 1; rank_ == root && step < size_; ++step)
    send_counted(requests, data, bytes, (rank_ + step) % size_, collective.tag);
  return work(std::move(requests), collective.operation);
}

Work MpiCommunicator::all_gather(const void* in, void* out, std::span<const std::int64_t> bytes,
                                 StreamHandle stream) {
  check_host_memory(stream);
  SLUICE_ASSERT(std::ssize(bytes) == size_, "all_gather was given {} parts for {} ranks", bytes.size(),
                size_);
  return gather(begin(Kind::kAllGather), in, out, bytes);
}

Work MpiCommunicator::gather(const Collective& collective, const void* in, void* out,
                             std::span<const std::int64_t> bytes) {
  MpiRequests requests = requests_of(collective);
  std::vector<std::int64_t> offsets(bytes.size());
  std::exclusive_scan(bytes.begin(), bytes.end(), offsets.begin(), std::int64_t{0});
  const auto place = [&](int rank) {
    return static_cast<std::byte*>(out) + offsets[static_cast<std::size_t>(rank)];
  };
  const auto length = [&](int rank) { return bytes[static_cast<std::size_t>(rank)]; };

  for (int step = 1; step < size_; ++step) {
    const int from = (rank_ + size_ - step) % size_;
    if (length(from) > 0) receive_counted(requests, place(from), length(from), from, collective.tag);
  }
  for (int step = 1; step < size_; ++step) {
    if (length(rank_) > 0) send_counted(requests, in, length(rank_), (rank_ + step) % size_, collective.tag);
  }
  copy_own(static_cast<const std::byte*>(in), place(rank_), length(rank_));
  return work(std::move(requests), collective.operation);
}

Work MpiCommunicator::all_to_all(const void* in, std::span<const std::int64_t> send_bytes, void* out,
                                 std::span<const std::int64_t> receive_bytes, StreamHandle stream) {
  check_host_memory(stream);
  SLUICE_ASSERT(std::ssize(send_bytes) == size_ && std::ssize(receive_bytes) == size_,
                "all_to_all was given {} and {} parts for {} ranks", send_bytes.size(), receive_bytes.size(),
                size_);
  const auto self = static_cast<std::size_t>(rank_);
  SLUICE_ASSERT(send_bytes[self] == receive_bytes[self], "rank {} sends itself {} bytes but expects {}",
                rank_, send_bytes[self], receive_bytes[self]);
  const Collective collective = begin(Kind::kAllToAll);
  MpiRequests requests = requests_of(collective);

  auto* target = static_cast<std::byte*>(out);
  std::byte* own_target = nullptr;
  for (int from = 0; from < size_; ++from) {
    const std::int64_t bytes = receive_bytes[static_cast<std::size_t>(from)];
    if (from == rank_)
      own_target = target;
    else if (bytes > 0)
      receive_counted(requests, target, bytes, from, collective.tag);
    target += bytes;
  }
  const auto* source = static_cast<const std::byte*>(in);
  for (int to = 0; to < size_; ++to) {
    const std::int64_t bytes = send_bytes[static_cast<std::size_t>(to)];
    if (to == rank_)
      copy_own(source, own_target, bytes);
    else if (bytes > 0)
      send_counted(requests, source, bytes, to, collective.tag);
    source += bytes;
  }
  return work(std::move(requests), collective.operation);
}

std::vector<std::string> MpiCommunicator::all_gather_text(std::string_view text) {
  const auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size_));
  const std::vector<std::int64_t> each(lengths.size(), sizeof(std::int64_t));
  all_gather(&length, lengths.data(), each, nullptr).wait();

  std::string all(static_cast<std::size_t>(sum(lengths)), '\0');
  all_gather(text.data(), all.data(), lengths, nullptr).wait();

  std::vector<std::string> texts;
  std::size_t offset = 0;
  for (const std::int64_t part : lengths) {
    texts.push_back(all.substr(offset, static_cast<std::size_t>(part)));
    offset += static_cast<std::size_t>(part);
  }
  return texts;
}

std::string MpiCommunicator::broadcast_text(std::string_view text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  broadcast(&length, sizeof length, root, nullptr).wait();
  std::string all(rank_ == root ? text : std::string_view());
  all.resize(static_cast<std::size_t>(length));
  broadcast(all.data(), length, root, nullptr).wait();
  return all;
}

}  // namespace sluice
