// Protocol buffers by hand: five message types, three wire types.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kCastagnoli = 0x82F63B78;  // reflected

std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kCastagnoli : 0);
    }
    table[i] = value;
  }
  return table;
}

template <class Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  }
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>((value & 0x7F) | 0x80);
  }
  return bytes + static_cast<char>(value);
}

// Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
std::string key(unsigned field, unsigned wire_type) {
  return varint(field << 3 | wire_type);
}

std::string bytes_field(unsigned field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}

std::string stamp(double wall_time, std::int64_t step) {
  return key(1, 1) + little_endian(std::bit_cast<std::uint64_t>(wall_time)) + key(2, 0) +
         varint(static_cast<std::uint64_t>(step));
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = make_crc_table();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  }
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string event_record(std::string_view event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  return length + little_endian(masked_crc32c(length)) + std::string(event) +
         little_endian(masked_crc32c(event));
}

std::string version_event(double wall_time) {
  return stamp(wall_time, 0) + bytes_field(3, "brain.Event:2");
}

std::string start_event(double wall_time, std::int64_t step) {
  return stamp(wall_time, step) + bytes_field(7, key(1, 0) + varint(1));
}

std::string scalar_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    summary += bytes_field(1, bytes_field(1, tag) + key(2, 5) + little_endian(bits));
  }
  return stamp(wall_time, step) + bytes_field(5, summary);
}

EventFile::EventFile(const fs::path& folder, std::int64_t first_step) {
  fs::create_directories(folder);
  const double time = now();
  file_ = folder / concat("events.out.tfevents.", static_cast<std::int64_t>(std::floor(time)),
                          ".darkformer.", getpid());
  stream_.reset(std::fopen(file_.c_str(), "we"));
  require(stream_ != nullptr, file_.string(),
          ": cannot be opened for writing: ", std::strerror(errno));
  append(version_event(time));
  append(start_event(time, first_step));
}

void EventFile::write(std::int64_t step, const Scalars& scalars) {
  append(scalar_event(now(), step, scalars));
}

void EventFile::append(const std::string& event) {
  const std::string record = event_record(event);
  const bool written =
      std::fwrite(record.data(), 1, record.size(), stream_.get()) == record.size() &&
      std::fflush(stream_.get()) == 0;
  require(written, file_.string(), ": cannot be written: ", std::strerror(errno));
}

}  // namespace darkformer
