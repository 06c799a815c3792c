// Between float32 and the 16-bit floats of model files: bfloat16 and float16, as raw bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "darkformer/kernels/stored_matrix.h"

namespace darkformer::kernels {

// to[i] <- from[i], exactly: every 16-bit float is a float32. NaN stays NaN.
// Runs on the calling thread: callers convert a block each. No aliasing.
void convert_to_float(const void* from, StoredType type, std::size_t count, float* to);

// to[i] <- from[i] rounded to the nearest value of the stored type, ties to even; beyond the
// largest: infinity; below the smallest normal: subnormal; NaN stays NaN. As above otherwise.
void convert_from_float(const float* from, StoredType type, std::size_t count, void* to);

// The same one value at a time: the definition, the reference of the tests and the portable code.
float bfloat16_to_float(std::uint16_t bits);
float float16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);
std::uint16_t float_to_float16(float value);

// One value of a stored array.
float stored_value(const void* from, StoredType type, std::size_t index);

}  // namespace darkformer::kernels
