// XXH64 after its published specification, and the keys built on it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace darkformer {
namespace {

static_assert(std::endian::native == std::endian::little,
              "our files and checksums are little-endian");

// The five odd primes of the specification.
constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <class Word>
std::uint64_t load(const unsigned char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

std::uint64_t mix(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

void mix_stripe(std::array<std::uint64_t, 4>& lanes, const unsigned char* stripe) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i] = mix(lanes[i], load<std::uint64_t>(stripe + 8 * i));
  }
}

std::uint64_t join_lanes(const std::array<std::uint64_t, 4>& lanes) {
  std::uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                       std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) {
    hash = (hash ^ mix(0, lane)) * kPrime1 + kPrime4;
  }
  return hash;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

Checksum::Checksum(std::uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Checksum::update(const void* bytes, std::size_t size) {
  if (size == 0) {
    return;  // bytes may be null then
  }
  const auto* next = static_cast<const unsigned char*>(bytes);
  const std::size_t waiting = total_ % kStripe;
  total_ += size;
  if (waiting != 0) {
    const std::size_t taken = std::min(kStripe - waiting, size);
    std::memcpy(tail_.data() + waiting, next, taken);
    if (waiting + taken < kStripe) {
      return;
    }
    mix_stripe(lanes_, tail_.data());
    next += taken;
    size -= taken;
  }
  auto lanes = lanes_;  // a local copy stays in registers
  for (; size >= kStripe; next += kStripe, size -= kStripe) {
    mix_stripe(lanes, next);
  }
  lanes_ = lanes;
  std::memcpy(tail_.data(), next, size);
}

std::uint64_t Checksum::value() const {
  const std::uint64_t start = total_ >= kStripe ? join_lanes(lanes_) : seed_ + kPrime5;
  return avalanche(finish_tail(start + total_));
}

std::uint64_t Checksum::finish_tail(std::uint64_t hash) const {
  const unsigned char* next = tail_.data();
  std::size_t left = total_ % kStripe;
  for (; left >= 8; next += 8, left -= 8) {
    hash = std::rotl(hash ^ mix(0, load<std::uint64_t>(next)), 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ (load<std::uint32_t>(next) * kPrime1), 23) * kPrime2 + kPrime3;
    next += 4;
    left -= 4;
  }
  for (; left > 0; ++next, --left) {
    hash = std::rotl(hash ^ (*next * kPrime5), 11) * kPrime1;
  }
  return hash;
}

std::uint64_t checksum(const void* bytes, std::size_t size, std::uint64_t seed) {
  Checksum sum(seed);
  sum.update(bytes, size);
  return sum.value();
}

std::uint64_t checksum(std::string_view bytes, std::uint64_t seed) {
  return checksum(bytes.data(), bytes.size(), seed);
}

std::string to_hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; value >>= 4) {
    digits[i] = "0123456789abcdef"[value & 15];
  }
  return digits;
}

KeyBuilder& KeyBuilder::add(std::string_view text) {
  add(text.size());
  checksum_.update(text.data(), text.size());
  return *this;
}

KeyBuilder& KeyBuilder::add(std::uint64_t number) {
  checksum_.update(&number, sizeof(number));
  return *this;
}

}  // namespace darkformer
