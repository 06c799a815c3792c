// A decode state on disk: one safetensors file that only its own model accepts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "darkformer/model/decoder_state.h"

namespace darkformer {

class Decoder;

// Tensors "hidden" and "layers.N.I" (tensor I of layer N), metadata with the position, the model's
// fingerprint and a checksum of everything. Written atomically. The state must have read a token.
void save_state(const std::filesystem::path& file, const DecoderState& state, const Decoder& model);

// Going on from the result gives the same bits as going on from what was saved. Error, one line:
// not such a file, damaged, or made by a model with other weights or draws.
DecoderState load_state(const std::filesystem::path& file, const Decoder& model);

// Whether the file is one of these, of any model; false where there is none.
bool is_state_file(const std::filesystem::path& path);

}  // namespace darkformer
