// INT8 and NF4 against bitsandbytes, whose codes and scales tests/fixtures/make_quantiser_reference.py has
// written.
#include "encoding/dequantise.hpp"
#include "encoding/quantise.hpp"
#include "io/hdf5.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Matrices of one group of the reference.
class BitsAndBytes {
 public:
  explicit BitsAndBytes(std::string group) : group_(std::move(group)) {}

  template <class T>
  [[nodiscard]] std::vector<T> read(const std::string& what) const {
    return file_.dataset("/" + group_ + "/" + what).read<T>();
  }
  [[nodiscard]] Encoding encoding(Codes codes) const {
    const std::vector<std::int64_t> shape = file_.dataset("/" + group_ + "/values").shape();
    return {.codes = codes,
            .scale_type = DType::kFloat32,
            .rows = shape[0],
            .columns = shape[1],
            .block_rows = 1,
            .block_columns = codes == Codes::kInt8 ? shape[1] : 64};
  }

 private:
  std::string group_;
  hdf5::File file_ = hdf5::File::open(fixture_folder() / "quantiser.h5");
};

struct Quantised {
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

Quantised quantised(const Encoding& encoding, const std::vector<float>& values) {
  const Range all{0, std::ssize(values)};
  Quantised out{std::vector<std::byte>(static_cast<std::size_t>(encoding.code_bytes(all.count()))),
                std::vector<float>(static_cast<std::size_t>(encoding.scales_of(all).count()))};
  quantise_rows(encoding, encoding.rows, values.data(), out.codes.data(),
                reinterpret_cast<std::byte*>(out.scales.data()));
  return out;
}

std::vector<float> numbers_of(const Encoding& encoding, const Quantised& quantised, std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  dequantise(encoding, {0, count}, quantised.codes.data(),
             reinterpret_cast<const std::byte*>(quantised.scales.data()), DType::kFloat32,
             reinterpret_cast<std::byte*>(numbers.data()));
  return numbers;
}

class QuantiserReference : public testing::TestWithParam<const char*> {
 protected:
  const BitsAndBytes reference{GetParam()};
  const std::vector<float> values = reference.read<float>("values");
};

TEST_P(QuantiserReference, int8_codes_and_scales_are_those_of_bitsandbytes) {
  const Quantised found = quantised(reference.encoding(Codes::kInt8), values);
  const std::vector<std::int32_t> codes = reference.read<std::int32_t>("int8_codes");
  for (std::size_t i = 0; i < codes.size(); ++i)
    ASSERT_EQ(static_cast<std::int8_t>(found.codes[i]), codes[i]) << "element " << i << ", " << values[i];
  EXPECT_EQ(found.scales, reference.read<float>("int8_scales"));
}

TEST_P(QuantiserReference, nf4_codes_scales_and_numbers_are_those_of_bitsandbytes) {
  const Encoding encoding = reference.encoding(Codes::kNormalFloat4);
  const Quantised found = quantised(encoding, values);
  const std::vector<std::int32_t> codes = reference.read<std::int32_t>("nf4_codes");
  for (std::size_t i = 0; i < codes.size(); ++i)
    ASSERT_EQ(std::to_integer<int>(found.codes[i / 2]) >> 4 * (i % 2) & 15, codes[i])
        << "element " << i << ", " << values[i];
  EXPECT_EQ(found.scales, reference.read<float>("nf4_scales"));
  EXPECT_EQ(numbers_of(encoding, found, std::ssize(values)), reference.read<float>("nf4_numbers"));
}

TEST_P(QuantiserReference, a_block_that_is_not_finite_becomes_nan_and_others_stay) {
  for (const Codes codes : {Codes::kInt8, Codes::kNormalFloat4})
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const Encoding encoding = reference.encoding(codes);
      std::vector<float> spoiled = values;
      spoiled[70] = bad;
      const std::vector<float> sound = numbers_of(encoding, quantised(encoding, values), std::ssize(values));
      const std::vector<float> found = numbers_of(encoding, quantised(encoding, spoiled), std::ssize(values));
      const std::int64_t begin = 70 / encoding.block_columns * encoding.block_columns;
      for (std::int64_t i = 0; i < std::ssize(values); ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i >= begin && i < begin + encoding.block_columns)
          ASSERT_TRUE(std::isnan(found[at])) << encoding.text() << ", element " << i;
        else
          ASSERT_EQ(found[at], sound[at]) << encoding.text() << ", element " << i;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, QuantiserReference, testing::Values("wide", "narrow"),
                         [](const auto& group) { return std::string(group.param); });

}  // namespace
}  // namespace sluice
