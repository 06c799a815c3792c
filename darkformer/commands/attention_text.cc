// The options that were chosen, behind the name of the kind.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/attention_text.h"

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer {

std::string attention_text(const AttentionSpec& spec) {
  std::string text(attention_kind_name(spec.kind));
  if (spec.kind == AttentionKind::kWindow) {
    return concat(text, " ", spec.window);
  }
  if (has_features(spec.kind)) {
    text += ", " + count_text(spec.features, "feature");
    text += has_factor(spec.kind) && has_draws(spec.kind) ? concat(", rank ", spec.rank) : "";
    text += spec.centre ? ", centred" : "";
    text +=
        spec.window > 0 ? concat(", window ", spec.window, spec.gate ? " with a gate" : "") : "";
    text += spec.sinks > 0 ? ", " + count_text(spec.sinks, "sink") : "";
    text += spec.far == FarKeys::kAll ? ", features over the near keys too" : "";
    const bool near = spec.window > 0 || spec.sinks > 0;
    text += near && spec.near == NearKernel::kModel ? ", near keys by the model's own kernel" : "";
    text += spec.learned_draws ? ", learned draws" : "";
    text += spec.own_key_factor ? ", keys with a factor of their own" : "";
    text += spec.folded ? ", its factor folded into the projections" : "";
  }
  return text;
}

void require_window(AttentionKind kind, std::int64_t window) {
  if (kind == AttentionKind::kWindow && window == 0) {
    throw UsageError("--attention window sees the nearest keys and no other; give --window N");
  }
}

}  // namespace darkformer
