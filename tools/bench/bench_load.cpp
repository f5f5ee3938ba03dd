// The loader against what it could at best be: a plain loop that copies the same bytes with no plan at all,
// and a bare read of the same files by one rank. Run it under mpirun on a model directory:
//
//   mpirun --oversubscribe -np 3 bench_load DIR [--rounds 5] [--cold] [--readers rank0|node|all]
//       [--page-cache auto|keep|drop] [--float32] [--chunk 8MiB] [--threads 2] [--slots 4] [--only-loader]
//       [--json FILE]
//
// Each round does all three, one after the other, each into fresh memory, so that noise hits them alike; of
// quantised weights also a bare loop in which each rank reads and dequantises its part of the same bytes.
// Rates are the files' bytes over the wall time from a barrier to the last rank's last byte, allocation and
// first touch included. --cold empties the page cache of the files before each; --only-loader leaves out the
// rest, for runs on two models in turn.
#include "arguments.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/nodes.hpp"
#include "comm/outcome.hpp"
#include "load/streaming_loader.hpp"
#include "model/architecture.hpp"
#include "weights/checkpoint_match.hpp"
#include "weights/entry_reader.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace sluice;
namespace fs = std::filesystem;

struct Arguments {
  fs::path directory;
  int rounds = 5;
  bool cold = false;
  std::string readers = "rank0";
  DType dtype = DType::kBFloat16;
  LoadOptions load;
  std::int64_t chunk_bytes = 8 * kMiB;
  fs::path json;
  bool only_loader = false;
};

CachePolicy cache_policy(std::string_view name) {
  if (name == "auto") return CachePolicy::kAuto;
  if (name == "keep") return CachePolicy::kKeep;
  if (name == "drop") return CachePolicy::kDrop;
  fail(ExitCode::kUsage, "--page-cache is auto, keep or drop");
}

/// Nodes may be pretended with SLUICE_NODES.
ReaderAssignment assign_readers(Communicator& comm, std::string_view name) {
  if (name == "rank0") return ReaderAssignment::rank0(comm.size());
  if (name == "node") return ReaderAssignment::node(find_nodes(comm));
  if (name == "all") return ReaderAssignment::all(comm.size());
  fail(ExitCode::kUsage, "--readers is rank0, node or all");
}

Arguments parse(std::span<char*> words) {
  Arguments arguments;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const auto value = [&] {
      if (i + 1 == words.size()) fail(ExitCode::kUsage, "{} needs a value", word);
      return std::string(words[++i]);
    };
    if (word == "--rounds")
      arguments.rounds = count_in(value());
    else if (word == "--cold")
      arguments.cold = true;
    else if (word == "--readers")
      arguments.readers = value();
    else if (word == "--page-cache")
      arguments.load.page_cache = cache_policy(value());
    else if (word == "--float32")
      arguments.dtype = DType::kFloat32;
    else if (word == "--chunk")
      arguments.chunk_bytes = parse_bytes(value()).value_or(8 * kMiB);
    else if (word == "--threads")
      arguments.load.reader_threads = count_in(value());
    else if (word == "--slots")
      arguments.load.ring_slots = count_in(value());
    else if (word == "--only-loader")
      arguments.only_loader = true;
    else if (word == "--json")
      arguments.json = value();
    else
      arguments.directory = word;
  }
  if (arguments.directory.empty()) fail(ExitCode::kUsage, "usage: bench_load DIR [options]");
  return arguments;
}

/// Blocks of a file, in the order of all files; block i belongs to rank i % ranks.
struct Block {
  int file;
  std::int64_t offset;
  std::int64_t bytes;
};

/// Elements of a published tensor; piece i belongs to rank i % ranks.
struct EntryPiece {
  const CheckpointEntry* entry;
  Range elements;
};

class Bench {
 public:
  Bench(Communicator& comm, Arguments arguments)
      : comm_(comm),
        arguments_(std::move(arguments)),
        model_(describe_model(arguments_.directory, arguments_.dtype)),
        index_(share_checkpoint_index(comm, arguments_.directory)),
        plan_(index_, match_checkpoint(index_, keys_, arguments_.dtype), shards_,
              {.arena = arguments_.dtype,
               .chunk_bytes = arguments_.chunk_bytes,
               .readers = assign_readers(comm, arguments_.readers)}) {
    arguments_.load.baseline = sample_memory();
    for (const CheckpointFile& file : index_.files) {
      files_.push_back(InputFile::open(arguments_.directory / file.name));
      for (std::int64_t at = 0; at < file.bytes; at += kBlockBytes)
        blocks_.push_back({static_cast<int>(files_.size()) - 1, at, std::min(kBlockBytes, file.bytes - at)});
      file_bytes_ += file.bytes;
    }
    if (!index_.encodings.empty()) list_pieces();
  }

  void run() {
    for (int round = 0; round < arguments_.rounds; ++round) {
      if (!arguments_.only_loader) run_limits();
      // The loader's report is made after its last byte.
      seconds_of([this] { run_loader(); });
      loader_.push_back(slowest_rank());
    }
    if (comm_.rank() == 0) print();
  }

 private:
  static constexpr std::int64_t kBlockBytes = 4 * kMiB;
  static constexpr std::size_t kSlots = 4;

  template <class Call>
  double seconds_of(Call call) {
    if (arguments_.cold && comm_.rank() == 0)
      for (const InputFile& file : files_) file.drop_cache(0, file.size_bytes());
    comm_.barrier();
    const Stopwatch watch;
    call();
    comm_.barrier();
    return watch.seconds();
  }

  void read(const Block& block, std::byte* to) const {
    files_[static_cast<std::size_t>(block.file)].read_at(block.offset,
                                                         {to, static_cast<std::size_t>(block.bytes)});
  }
  [[nodiscard]] std::int64_t bytes_of_rank(int rank) const {
    std::int64_t bytes = 0;
    for (std::size_t i = static_cast<std::size_t>(rank); i < blocks_.size(); i += ranks())
      bytes += blocks_[i].bytes;
    return bytes;
  }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }

  void run_limits() {
    plain_.push_back(seconds_of([this] { run_plain_loop(); }));
    bare_.push_back(seconds_of([this] { run_bare_read(); }));
    if (!pieces_.empty()) dequantising_.push_back(seconds_of([this] { run_dequantising_loop(); }));
  }

  /// Rank 0 reads block after block and sends each to its rank, its own into place; the others receive into
  /// place.
  void run_plain_loop() {
    const MemoryBlock shard = allocate(MemoryKind::kPrivate, bytes_of_rank(comm_.rank()), "the plain loop");
    comm_.rank() == 0 ? send_plainly(shard.data()) : receive_plainly(shard.data());
  }
  void send_plainly(std::byte* own) {
    const MemoryBlock ring = allocate(MemoryKind::kPrivate, kBlockBytes * kSlots, "the plain loop");
    std::array<Work, kSlots> works;
    std::size_t slot = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const int to = static_cast<int>(i % ranks());
      if (to == 0) {
        read(blocks_[i], own);
        own += blocks_[i].bytes;
        continue;
      }
      std::byte* const staged = ring.data() + slot * kBlockBytes;
      works[slot].wait();
      read(blocks_[i], staged);
      works[slot] = comm_.send(staged, blocks_[i].bytes, to, 0);
      slot = (slot + 1) % kSlots;
    }
    for (Work& work : works) work.wait();
  }
  void receive_plainly(std::byte* own) {
    std::array<Work, kSlots> works;
    std::size_t slot = 0;
    for (std::size_t i = static_cast<std::size_t>(comm_.rank()); i < blocks_.size(); i += ranks()) {
      works[slot].wait();
      works[slot] = comm_.receive(own, blocks_[i].bytes, 0, 0);
      own += blocks_[i].bytes;
      slot = (slot + 1) % kSlots;
    }
    for (Work& work : works) work.wait();
  }

  /// Rank 0 reads everything and keeps nothing; cold, with the direct reads of the loader where there are
  /// any.
  void run_bare_read() {
    if (comm_.rank() != 0) return;
    const MemoryBlock buffer = allocate(MemoryKind::kPrivate, 2 * kBlockBytes, "the bare read");
    for (const CheckpointFile& file : index_.files) read_bare(file, buffer);
  }
  void read_bare(const CheckpointFile& file, const MemoryBlock& buffer) const {
    const fs::path path = arguments_.directory / file.name;
    std::optional<InputFile> input;
    if (arguments_.cold) input = InputFile::open_direct(path);
    if (!input) input = InputFile::open(path);
    const std::int64_t step = buffer.bytes();
    for (std::int64_t at = 0; at < file.bytes; at += step)
      input->read_at_least(std::min(step, file.bytes - at), at,
                           {buffer.data(), static_cast<std::size_t>(step)});
  }

  void list_pieces() {
    constexpr std::int64_t kElements = 8 * kMiB;  // whole groups of any form
    for (const CheckpointEntry& entry : index_.entries) {
      const std::int64_t count = element_count(entry.shape);
      for (std::int64_t at = 0; at < count; at += kElements)
        pieces_.push_back({&entry, {at, std::min(count, at + kElements)}});
    }
  }

  /// Each rank reads its own pieces, and makes bfloat16 numbers of codes and scales, one after the other.
  void run_dequantising_loop() {
    std::int64_t bytes = 0;
    for (std::size_t i = static_cast<std::size_t>(comm_.rank()); i < pieces_.size(); i += ranks())
      bytes += bytes_of(pieces_[i]);
    const MemoryBlock numbers = allocate(MemoryKind::kPrivate, bytes, "the dequantising loop");
    EntryReader reader(index_, arguments_.directory,
                       arguments_.cold ? SourcePages::kAsFound : SourcePages::kKeep);
    std::byte* to = numbers.data();
    for (std::size_t i = static_cast<std::size_t>(comm_.rank()); i < pieces_.size(); i += ranks()) {
      const std::int64_t size = bytes_of(pieces_[i]);
      reader.read(*pieces_[i].entry, pieces_[i].elements, {to, static_cast<std::size_t>(size)});
      to += size;
    }
  }
  static std::int64_t bytes_of(const EntryPiece& piece) {
    return piece.elements.count() * size_of(piece.entry->dtype);
  }

  void run_loader() {
    // Maps the arena; its pages are touched for the first time while they are filled.
    ShardArena arena(shards_, comm_.rank(), arguments_.dtype, MemoryKind::kPrivate, "weights");
    report_ = load_shards(comm_, plan_, arguments_.directory, &arena, arguments_.load);
  }

  [[nodiscard]] double slowest_rank() const {
    return std::ranges::max_element(report_.ranks, {}, &RankLoad::seconds)->seconds;
  }

  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  }
  /// Of each round: how fast the loader was next to `other`.
  [[nodiscard]] double ratio_to(const std::vector<double>& other) const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < other.size(); ++i) ratios.push_back(other[i] / loader_[i]);
    return median(std::move(ratios));
  }
  [[nodiscard]] double rate(double seconds) const {
    return static_cast<double>(file_bytes_) / seconds * 1e-9;
  }

  void print() const {
    fmt::print("{}, {} ranks, {} files, {}, medians of {} rounds\n", format_bytes(file_bytes_), comm_.size(),
               files_.size(), arguments_.cold ? "cold" : "warm", arguments_.rounds);
    const auto line = [&](std::string_view name, const std::vector<double>& seconds) {
      fmt::print("  {:<12} {:6.2f} s  {:5.2f} GB/s  (best {:.2f} s, worst {:.2f} s)\n", name, median(seconds),
                 rate(median(seconds)), *std::ranges::min_element(seconds),
                 *std::ranges::max_element(seconds));
    };
    line("loader", loader_);
    const auto limit = [&](std::string_view name, const std::vector<double>& seconds) {
      if (seconds.empty()) return;
      line(name, seconds);
      fmt::print("              loader / {} {:.2f}\n", name, ratio_to(seconds));
    };
    limit("plain loop", plain_);
    limit("bare read", bare_);
    limit("dequantising", dequantising_);
    for (std::size_t rank = 0; rank < report_.ranks.size(); ++rank) {
      const RankLoad& row = report_.ranks[rank];
      fmt::print(
          "  rank {}: read {} + {}, sent {}, received {}, staging {}, growth above the shard {}, page cache "
          "{}\n",
          rank, row.read_bytes, row.overhead_bytes, row.sent_bytes, row.received_bytes,
          format_mib(row.peak_staging_bytes), format_mib(row.peak_growth_bytes - row.shard_bytes),
          row.page_cache_bytes < 0 ? "-" : format_mib(row.page_cache_bytes));
    }
    if (!arguments_.json.empty()) std::ofstream(arguments_.json) << as_json().dump(2) << '\n';
  }

  [[nodiscard]] nlohmann::json as_json() const {
    nlohmann::json out{{"bytes", file_bytes_},         {"ranks", comm_.size()},
                       {"cold", arguments_.cold},      {"readers", arguments_.readers},
                       {"plain_loop_seconds", plain_}, {"bare_read_seconds", bare_},
                       {"loader_seconds", loader_}};
    if (!plain_.empty()) out["loader_to_plain_loop"] = ratio_to(plain_);
    if (!bare_.empty()) out["loader_to_bare_read"] = ratio_to(bare_);
    if (!dequantising_.empty()) {
      out["dequantising_loop_seconds"] = dequantising_;
      out["loader_to_dequantising_loop"] = ratio_to(dequantising_);
    }
    for (const RankLoad& row : report_.ranks)
      out["per_rank"].push_back({{"read_bytes", row.read_bytes},
                                 {"overhead_bytes", row.overhead_bytes},
                                 {"page_cache_bytes", row.page_cache_bytes},
                                 {"sent_bytes", row.sent_bytes},
                                 {"received_bytes", row.received_bytes},
                                 {"staging_bytes", row.peak_staging_bytes},
                                 {"growth_above_shard_bytes", row.peak_growth_bytes - row.shard_bytes}});
    return out;
  }

  Communicator& comm_;
  Arguments arguments_;
  ModelDescription model_;
  KeyMap keys_{model_.manifest};
  UnitLayouts layouts_ = make_unit_layouts(model_.manifest);
  ShardPlan shards_{layouts_, {comm_.size(), 1}};
  CheckpointIndex index_;
  LoadPlan plan_;
  std::vector<InputFile> files_;
  std::vector<Block> blocks_;
  std::int64_t file_bytes_ = 0;
  std::vector<EntryPiece> pieces_;  ///< of quantised weights; none of others
  std::vector<double> plain_, bare_, dequantising_, loader_;
  LoadReport report_;
};

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(60);
  try {
    Bench(mpi.world(), parse({argv, static_cast<std::size_t>(argc)})).run();
  } catch (...) {
    const Outcome failure = current_failure();
    fmt::print(stderr, "bench_load: {}\n", failure.text);
    MpiEnvironment::abort(failure.code);
  }
  return 0;
}
