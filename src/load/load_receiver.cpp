#include "load/load_receiver.hpp"

#include <utility>

namespace sluice {

LoadReceiver::LoadReceiver(const LoadSetting& setting)
    : setting_(setting),
      from_(setting.plan.readers().reader_of(setting.rank())),
      reads_(setting.plan.reads_by(from_)),
      writer_(setting.arena),
      ring_(setting.ring()),
      slots_(ring_.slots()) {}

void LoadReceiver::step(std::size_t read) {
  while (posted_ < reads_.size() && posted_ < read + slots_.size()) post(posted_++);
  Slot& slot = slots_[read % slots_.size()];
  for (Work& work : slot.works) work.wait();
  slot.works.clear();
  const std::byte* staged = ring_.slot(read).data();
  const std::byte* scales = staged + slot.transfer.small_bytes;
  const auto write = [&](Piece piece) {
    piece.line_stride = piece.length();  // the lines of a packed box lie without gaps
    writer_.write(piece, staged, scales);
    staged += piece.bytes();
    scales += piece.scale_bytes();
  };
  for (const Piece& piece : slot.transfer.small) write(piece);
  staged += slot.transfer.scale_bytes;
  for (const Piece& piece : slot.transfer.large)
    if (setting_.plan.is_staged(piece)) write(piece);
  writer_.flush();
}

void LoadReceiver::post(std::size_t read) {
  Slot& slot = slots_[read % slots_.size()];
  setting_.plan.transfers_of(reads_[read], transfers_);
  std::swap(slot.transfer, transfers_[static_cast<std::size_t>(setting_.rank())]);
  std::byte* staged = ring_.slot(read).data();
  if (slot.transfer.packed_bytes() > 0) receive(slot, staged, slot.transfer.packed_bytes());
  staged += slot.transfer.packed_bytes();
  for (const Piece& piece : slot.transfer.large) {
    const bool is_staged = setting_.plan.is_staged(piece);
    receive(slot, is_staged ? staged : writer_.place(piece), piece.bytes());
    if (is_staged) staged += piece.bytes();
  }
}

void LoadReceiver::receive(Slot& slot, std::byte* to, std::int64_t bytes) {
  slot.works.push_back(setting_.comm.receive(to, bytes, from_, kLoadTag));
}

}  // namespace sluice
