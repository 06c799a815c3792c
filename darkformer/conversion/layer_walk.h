// A model run layer by layer over a few windows of text: what each layer reads is kept, nothing
// else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "darkformer/conversion/row_fit.h"
#include "darkformer/model/attention.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

// Memory: the hidden states of all windows, the queries and keys of the layer at hand, and the keys
// and values that later layers share.
class LayerWalk {
 public:
  // ids (W,T) int64. The model must outlive the walk; its layers may be changed before their turn
  // is over.
  LayerWalk(Decoder& model, const at::Tensor& ids);

  std::int64_t layer() const { return layer_; }  // at hand; the number of layers at the end
  // Runs the layer as it is: the queries and keys that its mixer gets. `each` after every few
  // windows; may throw to stop.
  RowExamples look(const std::function<void()>& each = {});
  // On to the next layer, with what look() computed.
  void pass();
  // The same with the layer as it has become since.
  void run_again(const std::function<void()>& each = {});

 private:
  struct Part {         // a few windows
    Decoder::Start at;  // x: the hidden states before the layer at hand
    at::Tensor attended;
    std::vector<KeyValues> keys;  // of layers that others share
  };
  KeyValues* shared(Part& part) const;

  Decoder& model_;
  std::int64_t layer_ = 0;
  std::vector<Part> parts_;
};

}  // namespace darkformer
