// Content keys: of bytes, not of places.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/content_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"

namespace darkformer::content_key_test {
namespace {

namespace fs = std::filesystem;

class ContentKey : public testing::Test {
 protected:
  fs::path put(const std::string& name, const std::string& bytes) const {
    write_file_atomically(scratch_.path() / name, bytes);
    return scratch_.path() / name;
  }
  ScratchFolder scratch_;
};

TEST_F(ContentKey, AFileIsItsBytes) {
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(file_checksum(put("large", large)), checksum(large));
  EXPECT_EQ(content_key({put("a", "text")}), content_key({put("b", "text")}));
  EXPECT_NE(content_key({put("a", "text")}), content_key({put("b", "texts")}));
  EXPECT_NE(content_key({put("a", "1"), put("b", "2")}),
            content_key({put("b", "2"), put("a", "1")}));
}

TEST_F(ContentKey, AFolderIsItsModel) {
  put("one/config.json", "{}"), put("one/model.safetensors", "weights");
  put("two/config.json", "{}"), put("two/model.safetensors", "weights");
  const auto key = [&](const char* name) { return content_key({scratch_.path() / name}); };
  const std::uint64_t before = key("one");
  EXPECT_EQ(before, key("two"));
  put("one/notes.txt", "mine"), put("one/.model.safetensors.partial", "half");
  EXPECT_EQ(before, key("one"));
  put("two/model.safetensors", "weightz");
  EXPECT_NE(before, key("two"));
  fs::rename(scratch_.path() / "one/config.json", scratch_.path() / "one/other.json");
  EXPECT_NE(before, key("one"));
}

TEST_F(ContentKey, WhatCannotBeReadIsAnError) {
  EXPECT_THROW(content_key({scratch_.path() / "missing"}), Error);
  const fs::path pipe = scratch_.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(content_key({pipe}), Error);
}

}  // namespace
}  // namespace darkformer::content_key_test
