// Philox4x32-10 and the uniform and normal values made from it.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled with -ffp-contract=off (darkformer/CMakeLists.txt): a fused multiply-add rounds once
// where two operations round twice, and the bits would depend on the machine.
#include "darkformer/base/philox.h"

#include <cassert>
#include <cmath>
#include <numbers>

#include "darkformer/base/threads.h"

namespace darkformer {
namespace {

constexpr int kRounds = 10;
// Below this many values a thread costs more than it saves (a normal takes about 20 ns).
constexpr std::size_t kGrain = 16384;

std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}
std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}

// The middle of one of 2^52 equal cells: exact in double, never 0 and never 1.
double open_unit(std::uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

// log(x) for x in (0, 1), to about one unit in the last place.
double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // [1/2, 1)
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.172: the term after s^23 is below 2^-60 of the sum
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double series = 0;
  for (int power = 23; power >= 1; power -= 2) {
    series = series * square + 1.0 / power;
  }
  return exponent * std::numbers::ln2 + 2 * s * series;
}

struct SinCos {
  double sin;
  double cos;
};

// sin and cos of an angle in [0, pi/4], by their Taylor series; the next terms are below 2^-58.
SinCos first_octant(double angle) {
  const double square = angle * angle;
  double sin = 1;
  double cos = 1;
  for (int k = 16; k >= 2; k -= 2) {
    sin = 1 - sin * square / (k * (k + 1));
    cos = 1 - cos * square / (k * (k - 1));
  }
  return {angle * sin, cos};
}

// sin and cos of 2 pi u for u in (0, 1): reduced exactly to the first octant, then mirrored.
SinCos turn(double u) {
  const double eighths = u * 8;
  const int octant = static_cast<int>(eighths);
  const double rest = eighths - octant;  // exact
  const bool mirrored = octant % 2 == 1;
  const auto [s, c] = first_octant((mirrored ? 1 - rest : rest) * (std::numbers::pi / 4));
  const SinCos quarter = mirrored ? SinCos{c, s} : SinCos{s, c};
  switch (octant / 2) {
    case 0:
      return quarter;
    case 1:
      return {quarter.cos, -quarter.sin};
    case 2:
      return {-quarter.sin, -quarter.cos};
    default:
      return {-quarter.cos, quarter.sin};
  }
}

// Two independent normals from two words of random bits.
SinCos box_muller(const std::array<std::uint64_t, 2>& words) {
  const double radius = std::sqrt(-2 * portable_log(open_unit(words[0])));
  const auto [s, c] = turn(open_unit(words[1]));
  return {radius * s, radius * c};
}

template <class Value, class Make>
void fill(std::span<Value> values, std::uint64_t first, const Make& make) {
  parallel_ranges(values.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      values[i] = static_cast<Value>(make(first + i));
    }
  });
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

std::array<std::uint64_t, 2> Philox::block(std::uint64_t number) const {
  const auto words =
      philox4x32({low(number), high(number), index_, stream_}, {low(seed_), high(seed_)});
  return {words[0] | std::uint64_t{words[1]} << 32, words[2] | std::uint64_t{words[3]} << 32};
}

std::uint64_t Philox::bits(std::uint64_t element) const {
  return block(element / 2)[element % 2];
}

std::uint64_t Philox::below(std::uint64_t element, std::uint64_t bound) const {
  assert(bound >= 1);
  // floor(bits * bound / 2^64), the 128-bit product in two halves
  const std::uint64_t value = bits(element);
  const std::uint64_t upper = (value >> 32) * (bound >> 32);
  const std::uint64_t cross1 = (value >> 32) * low(bound);
  const std::uint64_t cross2 = (bound >> 32) * low(value);
  const std::uint64_t lower = std::uint64_t{low(value)} * low(bound);
  const std::uint64_t carry = (std::uint64_t{low(cross1)} + low(cross2) + high(lower)) >> 32;
  return upper + high(cross1) + high(cross2) + carry;
}

double Philox::uniform(std::uint64_t element) const {
  return open_unit(bits(element));
}

double Philox::normal(std::uint64_t element) const {
  const auto pair = box_muller(block(element / 2));
  return element % 2 == 0 ? pair.cos : pair.sin;
}

void Philox::fill_normal(std::span<double> values, std::uint64_t first) const {
  fill(values, first, [this](std::uint64_t element) { return normal(element); });
}

void Philox::fill_normal(std::span<float> values, std::uint64_t first) const {
  fill(values, first, [this](std::uint64_t element) { return normal(element); });
}

void Philox::fill_uniform(std::span<double> values, std::uint64_t first) const {
  fill(values, first, [this](std::uint64_t element) { return uniform(element); });
}

void Philox::fill_uniform(std::span<float> values, std::uint64_t first) const {
  fill(values, first, [this](std::uint64_t element) { return uniform(element); });
}

}  // namespace darkformer
