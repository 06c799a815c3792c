// The rotations of full and of sliding layers, as config.json spells them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/base/json.h"
#include "darkformer/model/model_config.h"

namespace darkformer {

// config.rope_full and config.rope_sliding <- rope_theta, rope_local_base_freq and rope_scaling
// (transformers 4) or rope_parameters (transformers 5) of `text`, the object of the language model;
// what it does not say stays. Error naming `source`, the object of the file and the key: a rotation
// that cannot be or that the family does not have.
void read_ropes(const OrderedJson& text, const std::string& source, ModelConfig& config);

}  // namespace darkformer
