#include "load/load_receiver.hpp"

#include <utility>

namespace sluice {

LoadReceiver::LoadReceiver(const LoadSetting& setting)
    : setting_(setting),
      chunks_(setting.plan.chunks_of(setting.plan.readers().reader_of(setting.rank()))),
      writer_(setting.arena),
      ring_(setting.ring()),
      slots_(ring_.slots()) {}

void LoadReceiver::step(std::size_t number) {
  while (posted_ < chunks_.size() && posted_ < number + slots_.size()) post(posted_++);
  Slot& slot = slots_[number % slots_.size()];
  for (Work& work : slot.works) work.wait();
  slot.works.clear();
  if (setting_.passes_on()) pass_on(number);
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
  for (Work& work : std::exchange(slot.passed_on, {})) work.wait();
  setting_.plan.transfers_of(chunks_[number], transfers_);
  std::swap(slot.transfer, transfers_[static_cast<std::size_t>(setting_.rank())]);
  for_each_message(number, [&](std::byte* to, std::int64_t bytes) { receive(slot, to, bytes); });
}

template <class Visit>
void LoadReceiver::for_each_message(std::size_t number, const Visit& visit) {
  const Transfer& transfer = slots_[number % slots_.size()].transfer;
  std::byte* staged = ring_.slot(number).data();
  if (transfer.packed_bytes() > 0) visit(staged, transfer.packed_bytes());
  staged += transfer.packed_bytes();
  for (const LoadMove& move : transfer.large) {
    const bool is_staged = setting_.plan.is_staged(move);
    visit(is_staged ? staged : writer_.place(move), move.bytes());
    if (is_staged) staged += move.bytes();
  }
}

void LoadReceiver::receive(Slot& slot, std::byte* to, std::int64_t bytes) {
  slot.works.push_back(
      setting_.is_read_in_set()
          ? setting_.comm().receive(to, bytes, setting_.plan.readers().reader_of(setting_.rank()), kLoadTag)
          : setting_.sets.counterparts()->receive(to, bytes, setting_.sets.number() - 1, kLoadTag));
}

void LoadReceiver::pass_on(std::size_t number) {
  for_each_message(number, [&](const std::byte* data, std::int64_t bytes) {
    slots_[number % slots_.size()].passed_on.push_back(setting_.pass_on(data, bytes));
  });
}

void LoadReceiver::finish() {
  for (Slot& slot : slots_)
    for (Work& work : slot.passed_on) work.wait();
  writer_.finish();
}

}  // namespace sluice
