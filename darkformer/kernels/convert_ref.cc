// The 16-bit floats by their definition: sign, exponent and mantissa in double arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "darkformer/kernels/convert.h"

namespace darkformer::kernels {
namespace {

constexpr std::uint32_t kSignBit = 0x8000U;

std::uint16_t sign_of(float value) {
  return static_cast<std::uint16_t>(std::signbit(value) ? kSignBit : 0U);
}

}  // namespace

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

float float16_to_float(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  double value = 0.0;
  if (exponent == 0x1F) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return static_cast<float>((bits & kSignBit) != 0 ? -value : value);
}

std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);  // quiet: the kept half may be zero
  }
  // Half a unit of the kept part, less one when the kept part is even: ties go to even.
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

std::uint16_t float_to_float16(float value) {
  const std::uint16_t sign = sign_of(value);
  if (std::isnan(value)) {
    return sign | 0x7E00U;
  }
  const double size = std::abs(static_cast<double>(value));
  if (size >= 65520.0) {  // halfway between the largest float16, 65504, and 2^16
    return sign | 0x7C00U;
  }
  // Below 2^-14 the unit is that of subnormals, 2^-24; above, 10 bits below the leading one.
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // units = 2048 carries into the exponent, which is what adding does.
  return static_cast<std::uint16_t>(sign + ((exponent + 14) << 10) + units);
}

float stored_value(const void* from, StoredType type, std::size_t index) {
  const auto* bytes = static_cast<const unsigned char*>(from) + index * stored_bytes(type);
  if (type == StoredType::kFloat32) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return type == StoredType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

}  // namespace darkformer::kernels
