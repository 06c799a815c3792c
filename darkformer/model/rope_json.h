// A rotation as config.json spells it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/base/json.h"
#include "darkformer/model/rope.h"

namespace darkformer {

// {"rope_type" or "type": "linear", "factor": 8}, with the keys of its kind; a missing "rope_theta"
// is `base`, a missing "original_max_position_embeddings" is `positions`, the model's own. Error
// naming `where`, the file and the object's place in it: a kind we do not have, a key that the kind
// needs, a number that cannot be.
RopeSpec read_rope_spec(const OrderedJson& object,
                        double base,
                        std::int64_t positions,
                        const std::string& where);

// Error naming `where` and the key: a number that cannot be.
void check_rope_spec(const RopeSpec& rope, const std::string& where);

// With all keys of its kind but rope_theta. Reading it back gives the same rotation.
OrderedJson rope_spec_json(const RopeSpec& rope);

}  // namespace darkformer
