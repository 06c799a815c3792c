// A folder that is taken is refused, and free again when its owner has gone.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/folder_lock.h"

#include <gtest/gtest.h>

#include <optional>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"

namespace darkformer::folder_lock_test {
namespace {

TEST(FolderLock, LetsOneInAtATime) {
  const ScratchFolder scratch;
  std::optional<FolderLock> first(std::in_place, scratch.path());
  EXPECT_THROW(FolderLock(scratch.path()), Error);
  first.reset();
  const FolderLock second(scratch.path());
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_THROW(FolderLock(scratch.path() / "nowhere"), Error);
}

}  // namespace
}  // namespace darkformer::folder_lock_test
