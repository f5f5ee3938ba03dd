#include "load/load_receiver.hpp"

#include <utility>

namespace sluice {

LoadReceiver::LoadReceiver(const LoadSetting& setting)
    : setting_(setting),
      from_(setting.plan.readers().reader_of(setting.rank())),
      chunks_(setting.plan.chunks_of(from_)),
      writer_(setting.arena),
      ring_(setting.ring()),
      slots_(ring_.slots()) {}

void LoadReceiver::step(std::size_t number) {
  while (posted_ < chunks_.size() && posted_ < number + slots_.size()) post(posted_++);
  Slot& slot = slots_[number % slots_.size()];
  for (Work& work : slot.works) work.wait();
  slot.works.clear();
  const std::byte* staged = ring_.slot(number).data();
  const std::byte* scales = staged + slot.transfer.small_bytes;
  const auto write = [&](LoadMove move) {
    move.line_stride = move.length();  // the lines of a packed box lie without gaps
    writer_.write(move, staged, scales);
    staged += move.bytes();
    scales += move.scale_bytes();
  };
  for (const LoadMove& move : slot.transfer.small) write(move);
  staged += slot.transfer.scale_bytes;
  for (const LoadMove& move : slot.transfer.large)
    if (setting_.plan.is_staged(move)) write(move);
  writer_.flush();
}

void LoadReceiver::post(std::size_t number) {
  Slot& slot = slots_[number % slots_.size()];
  setting_.plan.transfers_of(chunks_[number], transfers_);
  std::swap(slot.transfer, transfers_[static_cast<std::size_t>(setting_.rank())]);
  std::byte* staged = ring_.slot(number).data();
  if (slot.transfer.packed_bytes() > 0) receive(slot, staged, slot.transfer.packed_bytes());
  staged += slot.transfer.packed_bytes();
  for (const LoadMove& move : slot.transfer.large) {
    const bool is_staged = setting_.plan.is_staged(move);
    receive(slot, is_staged ? staged : writer_.place(move), move.bytes());
    if (is_staged) staged += move.bytes();
  }
}

void LoadReceiver::receive(Slot& slot, std::byte* to, std::int64_t bytes) {
  slot.works.push_back(setting_.comm.receive(to, bytes, from_, kLoadTag));
}

}  // namespace sluice
