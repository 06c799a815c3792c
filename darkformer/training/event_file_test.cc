// Checksums with published values, and the bytes of a record.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/event_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "darkformer/base/scratch_folder.h"

namespace darkformer::event_file_test {
namespace {

namespace fs = std::filesystem;

// RFC 3720, B.4, and the usual check value.
TEST(EventFile, Crc32cHasItsKnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

TEST(EventFile, ScalarEventIsAProtocolBuffer) {
  // wall_time 1.0, step 300, {tag "a", simple_value 2.0}
  const std::string want(
      "\x09\x00\x00\x00\x00\x00\x00\xF0\x3F\x10\xAC\x02"
      "\x2A\x0A\x0A\x08\x0A\x01\x61\x15\x00\x00\x00\x40",
      24);
  EXPECT_EQ(scalar_event(1.0, 300, {{"a", 2.0}}), want);
}

TEST(EventFile, RecordsFollowEachOther) {
  const ScratchFolder scratch;
  EventFile(scratch.path() / "events", 5).write(5, {{"loss", 3.5}, {"rate", 1e-3}});
  const auto file = fs::directory_iterator(scratch.path() / "events")->path();
  EXPECT_EQ(file.filename().string().rfind("events.out.tfevents.", 0), 0U);
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::size_t at = 0;
  std::vector<std::string> events;
  while (at < bytes.size()) {
    const auto size = static_cast<unsigned char>(bytes[at]);  // all are short
    events.push_back(bytes.substr(at + 12, size));
    EXPECT_EQ(bytes.substr(at, size + 16U), event_record(events.back()));
    at += size + 16U;
  }
  ASSERT_EQ(events.size(), 3U);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(events[2].find("loss"), std::string::npos);
}

}  // namespace
}  // namespace darkformer::event_file_test
