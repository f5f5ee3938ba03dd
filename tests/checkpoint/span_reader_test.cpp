#include "checkpoint/span_reader.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

namespace sluice {
namespace {

/// Three units of 1000 bytes in two spans each, and one span that another rank saves.
class Units {
 public:
  static constexpr std::int64_t kHalf = 500;

  Units() : bytes_(3 * 2 * kHalf) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i % 251);
    before_ = bytes_;
    for (int half = 0; half < 6; ++half) spans_.push_back(span(half / 2, half));
    spans_.insert(spans_.begin() + 2, span(0, 1));
    spans_[2].is_copy = true;
  }

  void change(int unit) {
    for (std::int64_t i = 0; i < 2 * kHalf; ++i)
      bytes_[static_cast<std::size_t>(unit * 2 * kHalf + i)] = std::byte{255};
  }
  [[nodiscard]] const std::vector<StateSpan>& spans() const { return spans_; }
  [[nodiscard]] const std::vector<std::byte>& before() const { return before_; }

 private:
  [[nodiscard]] StateSpan span(int unit, int half) {
    return {.tensor = unit,
            .unit = unit,
            .array = kWeightsArray,
            .dtype = DType::kInt8,
            .numbers = {0, kHalf},
            .data = bytes_.data() + half * kHalf};
  }

  std::vector<std::byte> bytes_, before_;
  std::vector<StateSpan> spans_;
};

std::vector<std::byte> read_all(SpanReader& reader, std::int64_t piece) {
  std::vector<std::byte> read;
  while (reader.next(piece, [&](const StateSpan&, std::span<const std::byte> bytes) {
    read.insert(read.end(), bytes.begin(), bytes.end());
  })) {
  }
  return read;
}

TEST(SpanReader, reads_every_byte_once_but_those_that_other_ranks_save) {
  Units units;
  SpanReader reader(units.spans(), 1);
  EXPECT_EQ(read_all(reader, 7), units.before());
}

TEST(SpanReader, reads_what_was_there_before_the_units_changed) {
  for (const std::int64_t piece : {std::int64_t{1}, std::int64_t{333}, std::int64_t{1000}}) {
    Units units;
    SpanReader reader(units.spans(), 60);
    std::vector<std::byte> read;
    std::thread other([&] { read = read_all(reader, piece); });
    for (int round = 0; round < 2; ++round)
      for (int unit = 0; unit < 3; ++unit) {
        reader.keep(unit);
        units.change(unit);
      }
    other.join();
    EXPECT_EQ(read, units.before());
  }
}

TEST(SpanReader, says_that_nothing_is_read_any_more) {
  Units units;
  SpanReader reader(units.spans(), 0.05);
  reader.keep(0);
  test::expect_error(ExitCode::kIo, {"was written for 0.05 s (deadline.save_seconds)"},
                     [&] { reader.keep(1); });
}

TEST(SpanReader, keeps_nothing_once_it_is_stopped) {
  Units units;
  SpanReader reader(units.spans(), 60);
  reader.keep(0);
  reader.stop();
  reader.keep(1);
  EXPECT_TRUE(read_all(reader, 100).empty());
}

TEST(SpanReader, counts_the_largest_unit_without_what_others_save) {
  EXPECT_EQ(largest_unit_bytes(Units().spans()), 2 * Units::kHalf);
}

}  // namespace
}  // namespace sluice
