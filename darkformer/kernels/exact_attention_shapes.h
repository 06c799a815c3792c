// Problems of exact attention from tests/shapes/exact_attention.txt, for its test and benchmark.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "darkformer/base/shape_file.h"
#include "darkformer/kernels/exact_attention.h"

namespace darkformer::kernels {

inline ExactAttention exact_attention_shape(const ShapeLine& line) {
  ExactAttention a;
  a.B = line.size("B", 1);
  a.H = line.size("H", 1);
  a.G = line.size("G", a.H);
  a.T = line.size("T", 1);
  a.S = line.size("S", a.T);
  a.D = line.size("D", 1);
  a.Dv = line.size("V", a.D);
  a.scale = 1.0F / std::sqrt(static_cast<float>(a.D));
  a.causal = !line.flag("full");
  a.window = line.size("window");
  a.sinks = line.size("sinks");
  a.softcap = static_cast<float>(line.size("cap"));
  return a;
}

}  // namespace darkformer::kernels
