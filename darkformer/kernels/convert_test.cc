// Conversion of 16-bit floats: every bit pattern, every tie, on every instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/convert.h"

#include <bit>
#include <limits>

#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::convert_test {
namespace {

constexpr StoredType kNarrowTypes[] = {StoredType::kBfloat16, StoredType::kFloat16};

std::uint16_t narrowed(float value, StoredType type) {
  return type == StoredType::kBfloat16 ? float_to_bfloat16(value) : float_to_float16(value);
}

std::vector<std::uint16_t> every_pattern() {
  std::vector<std::uint16_t> bits(1U << 16U);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    bits[i] = static_cast<std::uint16_t>(i);
  }
  return bits;
}

// Random bit patterns (all exponents, NaN, infinity) and the surroundings of each float16 tie.
std::vector<float> hard_values() {
  std::vector<float> values(100000);
  std::mt19937 generator(5);
  for (float& value : values) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
  }
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const float tie = 0.5F * (float16_to_float(bits) + float16_to_float(bits + 1));
    for (const float value : {std::nextafter(tie, 0.0F), tie, std::nextafter(tie, 1e9F)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  for (const float value : {0.0F, 65504.0F, 65519.9F, 65520.0F, 3.3895314e38F, 3.4e38F,
                            std::numeric_limits<float>::infinity()}) {
    values.push_back(value);
    values.push_back(-value);
  }
  return values;
}

TEST(Convert, EveryPatternSurvivesTheRoundTrip) {
  for (const StoredType type : kNarrowTypes) {
    for (const std::uint16_t bits : every_pattern()) {
      const float value = stored_value(&bits, type, 0);
      const std::uint16_t back = narrowed(value, type);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(stored_value(&back, type, 0))) << bits;
      } else {
        ASSERT_EQ(back, bits) << value;
      }
    }
  }
}

TEST(Convert, KnownValues) {
  EXPECT_EQ(float16_to_float(0x3C00), 1.0F);
  EXPECT_EQ(float16_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(float16_to_float(0xFBFF), -65504.0F);
  EXPECT_EQ(bfloat16_to_float(0x3F80), 1.0F);
  EXPECT_EQ(float_to_bfloat16(1.00390625F), 0x3F80);  // a tie: down to even
  EXPECT_EQ(float_to_bfloat16(1.01171875F), 0x3F82);  // a tie: up to even
  EXPECT_EQ(float_to_bfloat16(3.4e38F), 0x7F80);
}

TEST(Convert, TiesGoToEvenAndNeighboursToTheNearest) {
  for (const StoredType type : kNarrowTypes) {
    const std::uint16_t last = type == StoredType::kBfloat16 ? 0x7F7F : 0x7BFF;
    for (std::uint16_t low = 0; low < last; ++low) {
      const auto high = static_cast<std::uint16_t>(low + 1);
      const double middle = 0.5 * static_cast<double>(stored_value(&low, type, 0)) +
                            0.5 * static_cast<double>(stored_value(&high, type, 0));
      const auto tie = static_cast<float>(middle);
      if (static_cast<double>(tie) != middle) {
        continue;  // between float32 subnormals: no such value
      }
      ASSERT_EQ(narrowed(tie, type), low % 2 == 0 ? low : high);
      ASSERT_EQ(narrowed(std::nextafter(tie, -1.0F), type), low);
      ASSERT_EQ(narrowed(std::nextafter(tie, std::numeric_limits<float>::max()), type), high);
    }
  }
}

void check_widening(StoredType type, const std::vector<std::uint16_t>& bits) {
  PoisonedBuffer<float> got(bits.size());
  convert_to_float(bits.data(), type, bits.size(), got.data());
  EXPECT_TRUE(got.guards_intact());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const float want = stored_value(bits.data(), type, i);
    const bool same = std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want);
    ASSERT_TRUE(same || (std::isnan(want) && std::isnan(got[i]))) << i;
  }
}

TEST(Convert, WideningEqualsTheDefinition) {
  const std::vector<std::uint16_t> bits = every_pattern();
  on_every_target([&] {
    check_widening(StoredType::kBfloat16, bits);
    check_widening(StoredType::kFloat16, bits);
  });
}

void check_narrowing(StoredType type, const std::vector<float>& values) {
  std::vector<std::uint16_t> got(values.size());
  convert_from_float(values.data(), type, values.size(), got.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(stored_value(got.data(), type, i))) << i;
    } else {
      ASSERT_EQ(got[i], narrowed(values[i], type)) << values[i];
    }
  }
}

TEST(Convert, NarrowingEqualsTheDefinition) {
  const std::vector<float> values = hard_values();
  on_every_target([&] {
    check_narrowing(StoredType::kBfloat16, values);
    check_narrowing(StoredType::kFloat16, values);
  });
}

void check_edges(StoredType type, std::size_t count) {
  const std::vector<float> values = random_values(count, 3);
  std::vector<std::uint16_t> stored(2 * count + 4, 0xABCD);
  convert_from_float(values.data(), type, count, stored.data());
  for (std::size_t i = count * stored_bytes(type) / 2; i < stored.size(); ++i) {
    ASSERT_EQ(stored[i], 0xABCD) << count;
  }
  PoisonedBuffer<float> back(count);
  convert_to_float(stored.data(), type, count, back.data());
  EXPECT_TRUE(back.guards_intact());
  EXPECT_TRUE(back.fully_written());
}

TEST(Convert, OddCountsStayInsideTheirArrays) {
  on_every_target([] {
    for (const std::size_t count : {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33}) {
      check_edges(StoredType::kFloat32, count);
      check_edges(StoredType::kBfloat16, count);
      check_edges(StoredType::kFloat16, count);
    }
  });
}

}  // namespace
}  // namespace darkformer::kernels::convert_test
