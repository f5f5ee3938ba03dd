#include "checkpoint/hosts/fetched_blocks.hpp"

#include "base/byte_stream.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace sluice {
namespace {

constexpr int kBlockTag = 31;
/// Rounds between two meetings of all ranks, in which they learn of failures.
constexpr std::int64_t kRoundsTogether = 64;

std::string to_bytes(const std::vector<WantedBlock>& wanted) {
  ByteWriter out;
  for (const WantedBlock& block : wanted) {
    out.number(block.place.file);
    out.number(block.place.block);
    out.number(block.from);
  }
  return out.take();
}

std::vector<WantedBlock> wanted_from(const std::string& bytes) {
  std::vector<WantedBlock> wanted;
  for (ByteReader in(bytes); !in.at_end();) {
    WantedBlock block;
    block.place.file = static_cast<int>(in.number());
    block.place.block = in.number();
    block.from = static_cast<int>(in.number());
    wanted.push_back(block);
  }
  return wanted;
}

/// One rank's side of the transfers.
class Exchange {
 public:
  Exchange(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
           const std::vector<BlockTransfer>& transfers, double limit_seconds)
      : comm_(comm), step_(step), directory_(directory) {
    std::vector<BlockPlace> read;
    for (const BlockTransfer& transfer : transfers) {
      if (transfer.to != comm.rank() && transfer.from != comm.rank()) continue;
      own_.push_back(transfer);
      if (transfer.from == comm.rank() && (read.empty() || read.back() != transfer.place))
        read.push_back(transfer.place);
    }
    if (own_.empty()) return;
    room_ = allocate(MemoryKind::kPrivate, 2 * kSavedBlockBytes, "blocks of a checkpoint from other hosts");
    blocks_.emplace(step_, directory_, std::move(read), comm.rank(), limit_seconds);
  }

  /// Makes the transfers of the rounds before `end`. Failures are told by outcome(); other transfers go on,
  /// so that no rank waits for this one.
  void run(std::int64_t end, const std::function<void(const BlockPlace&, const std::byte*)>& use) {
    while (next_ < own_.size() && own_[next_].round < end) {
      const std::int64_t round = own_[next_].round;
      Work sent, received;
      const BlockTransfer* arriving = nullptr;
      for (; next_ < own_.size() && own_[next_].round == round; ++next_)
        if (own_[next_].to == comm_.rank())
          received = receive(*(arriving = &own_[next_]));
        else
          sent = send(own_[next_]);
      received.wait();
      if (arriving != nullptr) attempt(wrong_, [&] { take(*arriving, use); });
      sent.wait();
    }
  }

  /// Failures of this rank's reads, and failures of its receives.
  [[nodiscard]] const Outcome& unread() const { return unread_; }
  [[nodiscard]] const Outcome& wrong() const { return wrong_; }

 private:
  [[nodiscard]] std::int64_t bytes_of(const BlockPlace& place) const {
    return step_.files[static_cast<std::size_t>(place.file)].block_bytes(place.block).count();
  }

  static void attempt(Outcome& outcome, const std::function<void()>& act) {
    if (!outcome.failed()) outcome = outcome_of(act);
  }

  Work receive(const BlockTransfer& transfer) {
    return comm_.receive(room_.data(), bytes_of(transfer.place), transfer.from, kBlockTag);
  }

  /// Sends a block; wrong bytes in place of a block that cannot be read, which its digest reveals.
  Work send(const BlockTransfer& transfer) {
    const std::byte* data = room_.data() + kSavedBlockBytes;
    attempt(unread_, [&] { data = blocks_->block(transfer.place); });
    return comm_.send(data, bytes_of(transfer.place), transfer.to, kBlockTag);
  }

  void take(const BlockTransfer& transfer,
            const std::function<void(const BlockPlace&, const std::byte*)>& use) const {
    const SavedFile& file = step_.files[static_cast<std::size_t>(transfer.place.file)];
    const std::span<const std::byte> block(room_.data(), static_cast<std::size_t>(bytes_of(transfer.place)));
    if (digest_of(block, 0) != file.blocks[static_cast<std::size_t>(transfer.place.block)])
      fail({ExitCode::kBadData, "checkpoint.damaged"},
           "{}: block {} of {} that rank {} sent is not what was saved", directory_.string(),
           transfer.place.block, file.name, transfer.from);
    use(transfer.place, block.data());
  }

  Communicator& comm_;
  const SavedStep& step_;
  const std::filesystem::path& directory_;
  std::vector<BlockTransfer> own_;
  std::size_t next_ = 0;
  MemoryBlock room_;  ///< memory for a block that arrives, and for one sent in place of an unreadable one
  std::optional<BlockStream> blocks_;
  Outcome unread_, wrong_;
};

}  // namespace

StepReaders::StepReaders(FileHolders holders, RankDisks disks)
    : holders_(std::move(holders)), disks_(std::move(disks)) {}

int StepReaders::reader_of(int file, int rank) const {
  if (!disks_) return rank;
  const std::vector<int>& holders = holders_[static_cast<std::size_t>(file)];
  if (std::ranges::find(holders, disks_->of(rank)) != holders.end()) return rank;
  const auto turn = static_cast<std::size_t>(rank);
  const std::vector<int>& ranks = disks_->ranks_of(holders[turn % holders.size()]);
  return ranks[(static_cast<std::size_t>(file) + turn) % ranks.size()];
}

std::vector<BlockTransfer> order_transfers(const std::vector<std::vector<WantedBlock>>& wanted) {
  std::vector<BlockTransfer> transfers;
  std::vector<std::int64_t> free_to_send(wanted.size()), free_to_receive(wanted.size());
  bool is_left = true;
  for (std::size_t i = 0; is_left; ++i) {
    is_left = false;
    for (std::size_t to = 0; to < wanted.size(); ++to) {
      if (i >= wanted[to].size()) continue;
      is_left = true;
      const WantedBlock& block = wanted[to][i];
      std::int64_t& sender = free_to_send[static_cast<std::size_t>(block.from)];
      const std::int64_t round = std::max(sender, free_to_receive[to]);
      transfers.push_back({block.place, block.from, static_cast<int>(to), round});
      sender = free_to_receive[to] = round + 1;
    }
  }
  std::ranges::stable_sort(transfers, {}, &BlockTransfer::round);
  return transfers;
}

void fetch_blocks(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                  const std::vector<WantedBlock>& wanted, double limit_seconds,
                  const std::function<void(const BlockPlace&, const std::byte*)>& use) {
  std::vector<std::vector<WantedBlock>> of_ranks;
  for (const std::string& bytes : comm.all_gather_text(to_bytes(wanted)))
    of_ranks.push_back(wanted_from(bytes));
  const std::vector<BlockTransfer> transfers = order_transfers(of_ranks);
  if (transfers.empty()) return;
  std::optional<Exchange> exchange;
  run_together(comm, [&] { exchange.emplace(comm, step, directory, transfers, limit_seconds); });
  for (std::int64_t round = 0; round <= transfers.back().round; round += kRoundsTogether) {
    exchange->run(round + kRoundsTogether, use);
    run_together(comm, [&] { exchange->unread().throw_if_failed(); });
    run_together(comm, [&] { exchange->wrong().throw_if_failed(); });
  }
}

}  // namespace sluice
