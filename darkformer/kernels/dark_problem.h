// A problem of dark attention made from a line of tests/shapes/dark_attention.txt: sizes, options,
// random inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "darkformer/base/philox.h"
#include "darkformer/base/shape_file.h"
#include "darkformer/kernels/dark_attention.h"

namespace darkformer::kernels {

struct DarkProblem {
  DarkAttention shape;
  std::string name;
  bool gate_per_token = false;
  std::vector<float> q, k, v, d_o;
  std::vector<float> draws, factor, key_factor, log_weights, query_center, key_center, gate;

  DarkInputs inputs() const {
    const DarkAttention& s = shape;
    const auto pointer = [](const std::vector<float>& x) { return x.empty() ? nullptr : x.data(); };
    return {contiguous_heads(q.data(), s.H, s.T, s.D),
            contiguous_heads(k.data(), s.G, s.S, s.D),
            contiguous_heads(v.data(), s.G, s.S, s.Dv),
            {pointer(draws), pointer(factor), pointer(key_factor), pointer(log_weights),
             pointer(query_center), pointer(key_center), pointer(gate), gate_per_token}};
  }
};

inline std::vector<float> normal_values(std::size_t count, std::uint32_t stream, float size) {
  std::vector<float> values(count);
  Philox(20, stream).fill_normal(std::span<float>(values));
  for (float& value : values) {
    value *= size;
  }
  return values;
}

// Inputs whose rows q and k have a length of about `size` after the scale.
inline void fill_problem(DarkProblem& p, const ShapeLine& line, float size) {
  const DarkAttention& s = p.shape;
  const float row = size / std::sqrt(static_cast<float>(s.D) * s.scale);
  p.q = normal_values(s.B * s.H * s.T * s.D, 1, row);
  p.k = normal_values(s.B * s.G * s.S * s.D, 2, row);
  p.v = normal_values(s.B * s.G * s.S * s.Dv, 3, 1.0F);
  p.d_o = normal_values(s.B * s.H * s.T * s.Dv, 4, 1.0F);
  p.draws = normal_values(s.softmax_features ? 0 : s.N * s.F * s.R, 5, 1.0F);
  const auto where = [&](const char* option, std::size_t count, std::uint32_t stream,
                         float spread) {
    return line.flag(option) ? normal_values(count, stream, spread) : std::vector<float>();
  };
  const float map = 1.0F / std::sqrt(static_cast<float>(s.D));
  p.factor = where("factor", s.N * s.R * s.D, 6, map);
  p.key_factor = where("keyfactor", s.N * s.R * s.D, 7, map);
  p.log_weights = where("weights", s.N * s.F, 8, 0.5F);
  p.query_center = where("querycenter", s.N * s.D, 9, 0.5F * row);
  p.key_center = where("keycenter", s.G * s.D, 10, 0.5F * row);
  p.gate_per_token = line.flag("tokengate");
  p.gate = p.gate_per_token ? normal_values(s.B * s.H * s.T * 2, 11, 0.7F)
                            : where("headgate", s.H * 2, 11, 0.7F);
}

inline DarkProblem read_problem(const ShapeLine& line, float size = 2.0F) {
  DarkProblem p;
  p.name = line.id();
  DarkAttention& s = p.shape;
  s.B = line.size("B"), s.H = line.size("H"), s.G = line.size("G"), s.N = line.size("N", s.G);
  s.T = line.size("T"), s.S = line.size("S", s.T), s.D = line.size("D"),
  s.Dv = line.size("Dv", s.D);
  s.softmax_features = line.flag("softmax");
  s.F = line.size("F"), s.R = s.softmax_features ? s.F / 2 : line.size("R", s.D);
  s.window = line.size("window"), s.sinks = line.size("sinks"), s.chunk = line.size("chunk");
  s.causal = !line.flag("full");
  s.model_near = line.flag("modelnear"), s.far_all = line.flag("farall");
  s.scale = 1.0F / std::sqrt(static_cast<float>(s.D));
  fill_problem(p, line, size);
  return p;
}

inline DarkProblem read_problem(const std::string& line, float size = 2.0F) {
  return read_problem(ShapeLine(line), size);
}

}  // namespace darkformer::kernels
