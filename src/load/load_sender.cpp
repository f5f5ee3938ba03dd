#include "load/load_sender.hpp"

#include "comm/ranks_text.hpp"

#include <cstring>
#include <utility>

namespace sluice {

LoadSender::LoadSender(const LoadSetting& setting)
    : setting_(setting),
      chunks_(setting.plan.chunks_of(setting.rank())),
      writer_(setting.arena),
      ring_(setting.ring()),
      loaded_(ring_.slots()),
      reader_(setting.plan, setting.directory, setting.options.page_cache, own_place()),
      ahead_("reads the checkpoint", {ring_.slots(), setting.options.reader_threads, chunks_.size()},
             [this](std::size_t number, std::size_t slot) {
               const auto room = static_cast<std::size_t>(setting_.plan.chunk_room(setting_.rank()));
               const std::span<std::byte> memory = ring_.slot(slot);
               loaded_[slot] = reader_.read(chunks_[number], memory.first(room));
               reader_.read_scales(chunks_[number], memory.subspan(room));
             }) {
  ahead_.give(ring_.slots());
}

void LoadSender::step(std::size_t number) {
  wait_until([&] { return ahead_.is_done(number); },
             {"read", static_cast<std::int64_t>(number) + 1, setting_.rank()});
  const LoadedChunk chunk = loaded_[number % ring_.slots()];
  overhead_bytes_ += chunk.overhead_bytes;
  setting_.plan.transfers_of(chunks_[number], transfers_);
  std::byte* const scales = ring_.slot(number).data() + setting_.plan.chunk_room(setting_.rank());
  std::byte* packed = scales + setting_.plan.scale_room(setting_.rank());
  travelling_.emplace_back();
  for (int rank = 0; rank < setting_.comm().size(); ++rank)
    if (rank != setting_.rank() || setting_.passes_on())
      packed = send(rank, transfers_[static_cast<std::size_t>(rank)], chunk.data, scales, packed);
  keep_own(transfers_[static_cast<std::size_t>(setting_.rank())], chunk, scales);
  let_go();
}

void LoadSender::finish() {
  wait_until([this] { return travelling_.empty(); }, {"send", std::ssize(chunks_), setting_.rank()});
  writer_.finish();
}

void LoadSender::wait_until(const std::function<bool()>& is_done, const Operation& operation) {
  const auto moved = [&] {
    let_go();
    return is_done();
  };
  wait_for(
      moved, [this] { return awaited(); }, {"load", setting_.options.limit_seconds}, operation);
}

ChunkReader::OwnPlace LoadSender::own_place() const {
  // What is passed on is sent from the chunk.
  if (setting_.arena == nullptr || setting_.arena->is_on_device() || setting_.passes_on()) return nullptr;
  return [this](const LoadMove& move) { return writer_.place(move); };
}

void LoadSender::send(int rank, const std::byte* data, std::int64_t bytes) {
  if (rank == setting_.rank())
    travelling_.back().push_back({setting_.comm().size() + rank, setting_.pass_on(data, bytes)});
  else
    travelling_.back().push_back({rank, setting_.comm().send(data, bytes, rank, kLoadTag)});
}

std::byte* LoadSender::send(int rank, const Transfer& transfer, const std::byte* chunk,
                            const std::byte* scales, std::byte* packed) {
  std::byte* end = packed;
  const auto pack = [&](const std::byte* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(end, from, static_cast<std::size_t>(bytes));
    end += bytes;
  };
  for (const LoadMove& move : transfer.small) {
    if (move.is_contiguous()) {
      pack(chunk + move.source, move.bytes());
      continue;
    }
    const std::int64_t size = size_of(move.dtype);
    for (std::int64_t line = 0; line < move.lines; ++line)
      pack(chunk + move.source + line * move.line_stride * size, move.length() * size);
  }
  for (const LoadMove& move : transfer.small) pack(scales + move.scale_source, move.scale_bytes());
  for (const LoadMove& move : transfer.large) pack(scales + move.scale_source, move.scale_bytes());
  if (end != packed) send(rank, packed, end - packed);
  for (const LoadMove& move : transfer.large) send(rank, chunk + move.source, move.bytes());
  return end;
}

void LoadSender::keep_own(const Transfer& own, const LoadedChunk& chunk, const std::byte* scales) {
  const auto keep = [&](const LoadMove& move) {
    writer_.write(move, chunk.data + move.source, scales + move.scale_source);
  };
  for (const LoadMove& move : own.small) keep(move);
  for (const LoadMove& move : own.large)
    if (!chunk.own_placed || setting_.plan.is_staged(move)) keep(move);
  writer_.flush();
}

void LoadSender::let_go() {
  while (!travelling_.empty()) {
    std::vector<Message>& messages = travelling_.front();
    while (!messages.empty() && messages.back().work.test()) messages.pop_back();
    if (!messages.empty()) return;
    travelling_.pop_front();
    ahead_.give();
  }
}

std::string LoadSender::awaited() const {
  if (travelling_.size() < ring_.slots() && travelling_.size() < chunks_.size()) return "the disk";
  std::vector<int> ranks;
  for (const std::vector<Message>& messages : travelling_)
    for (const Message& message : messages) ranks.push_back(message.to);
  return ranks_text(std::move(ranks));
}

}  // namespace sluice
