// Windows back to documents.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/held_out_shard.h"

#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/text/token_shard.h"

namespace darkformer {

std::int64_t write_held_out(const CorpusSplit& split,
                            const TokenEncoder& encoder,
                            std::int64_t tokens,
                            const std::filesystem::path& file) {
  TokenShardWriter writer(file, encoder, 0);
  const auto full = [&] { return writer.info().tokens >= tokens; };
  for (std::int64_t w = 0; w < split.held_out.size() && !full(); ++w) {
    const TokenBatch window = split.held_out.read_batch(w, 1);
    for (std::int64_t t = 1; t <= window.context && !full(); ++t) {
      const auto id = static_cast<std::int32_t>(window.ids[static_cast<std::size_t>(t)]);
      if (id == encoder.eos) {
        writer.end_document();
      } else if (id != encoder.bos) {
        writer.append({&id, 1});
      }
    }
    if (split.unit == SplitUnit::kWindow) {
      writer.end_document();
    }
  }
  require(writer.info().tokens > 0, file.string(), ": no token is held out");
  writer.commit();
  return writer.info().tokens;
}

}  // namespace darkformer
