#include "load/load_sender.hpp"

#include "comm/ranks_text.hpp"

#include <cstring>
#include <utility>

namespace sluice {

LoadSender::LoadSender(const LoadSetting& setting)
    : setting_(setting),
      reads_(setting.plan.reads_by(setting.rank())),
      writer_(setting.arena),
      ring_(setting.ring()),
      chunks_(ring_.slots()),
      reader_(setting.plan, setting.directory, setting.options.page_cache, own_place()),
      ahead_("reads the checkpoint", {ring_.slots(), setting.options.reader_threads, reads_.size()},
             [this](std::size_t read, std::size_t slot) {
               const auto room = static_cast<std::size_t>(setting_.plan.chunk_room(setting_.rank()));
               const std::span<std::byte> memory = ring_.slot(slot);
               chunks_[slot] = reader_.read(reads_[read], memory.first(room));
               reader_.read_scales(reads_[read], memory.subspan(room));
             }) {
  ahead_.give(ring_.slots());
}

void LoadSender::step(std::size_t read) {
  wait_until([&] { return ahead_.is_done(read); },
             {"read", static_cast<std::int64_t>(read) + 1, setting_.rank()});
  const Chunk chunk = chunks_[read % ring_.slots()];
  overhead_bytes_ += chunk.overhead_bytes;
  setting_.plan.transfers_of(reads_[read], transfers_);
  std::byte* const scales = ring_.slot(read).data() + setting_.plan.chunk_room(setting_.rank());
  std::byte* packed = scales + setting_.plan.scale_room(setting_.rank());
  travelling_.emplace_back();
  for (int rank = 0; rank < setting_.comm.size(); ++rank)
    if (rank != setting_.rank())
      packed = send(rank, transfers_[static_cast<std::size_t>(rank)], chunk.data, scales, packed);
  keep_own(transfers_[static_cast<std::size_t>(setting_.rank())], chunk, scales);
  let_go();
}

void LoadSender::finish() {
  wait_until([this] { return travelling_.empty(); }, {"send", std::ssize(reads_), setting_.rank()});
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
  if (setting_.arena == nullptr || setting_.is_on_device()) return nullptr;
  return [this](const Piece& piece) { return writer_.place(piece); };
}

void LoadSender::send(int rank, const std::byte* data, std::int64_t bytes) {
  travelling_.back().push_back({rank, setting_.comm.send(data, bytes, rank, kLoadTag)});
}

std::byte* LoadSender::send(int rank, const Transfer& transfer, const std::byte* chunk,
                            const std::byte* scales, std::byte* packed) {
  std::byte* end = packed;
  const auto pack = [&](const std::byte* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(end, from, static_cast<std::size_t>(bytes));
    end += bytes;
  };
  for (const Piece& piece : transfer.small) {
    if (piece.is_contiguous()) {
      pack(chunk + piece.source, piece.bytes());
      continue;
    }
    const std::int64_t size = size_of(piece.dtype);
    for (std::int64_t line = 0; line < piece.lines; ++line)
      pack(chunk + piece.source + line * piece.line_stride * size, piece.length() * size);
  }
  for (const Piece& piece : transfer.small) pack(scales + piece.scale_source, piece.scale_bytes());
  for (const Piece& piece : transfer.large) pack(scales + piece.scale_source, piece.scale_bytes());
  if (end != packed) send(rank, packed, end - packed);
  for (const Piece& piece : transfer.large) send(rank, chunk + piece.source, piece.bytes());
  return end;
}

void LoadSender::keep_own(const Transfer& own, const Chunk& chunk, const std::byte* scales) {
  const auto keep = [&](const Piece& piece) {
    writer_.write(piece, chunk.data + piece.source, scales + piece.scale_source);
  };
  for (const Piece& piece : own.small) keep(piece);
  for (const Piece& piece : own.large)
    if (!chunk.own_placed || setting_.plan.is_staged(piece)) keep(piece);
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
  if (travelling_.size() < ring_.slots() && travelling_.size() < reads_.size()) return "the disk";
  std::vector<int> ranks;
  for (const std::vector<Message>& messages : travelling_)
    for (const Message& message : messages) ranks.push_back(message.to);
  return ranks_text(std::move(ranks));
}

}  // namespace sluice
