// A token shard: header, document table, ids.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/token_shard.h"

#include "fuzz/input.h"

using namespace darkformer;

namespace {

void read_all(const TokenShard& shard) {
  std::vector<std::int64_t> ids;
  for (std::int64_t d = 0; d < shard.info().documents; ++d) {
    const std::int64_t begin = shard.document_begin(d), end = shard.document_end(d);
    ids.resize(static_cast<std::size_t>(end - begin));
    shard.copy(begin, end - begin, ids.data());
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("text.tokens", fuzz::text_of(data, size));
  for (const ShardCheck check : {ShardCheck::kFast, ShardCheck::kFull}) {
    fuzz::expect_error_or_success([&] { read_all(TokenShard(path, check)); });
  }
  return 0;
}
