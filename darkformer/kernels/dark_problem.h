// A problem of dark attention made from a line of tests/shapes/dark_attention.txt: sizes, options,
// random inputs. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"
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
            {draws.data(), pointer(factor), pointer(key_factor), pointer(log_weights),
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

// Inputs of pretrained size: |q|, |k| of about `size` after the scale.
inline void fill_problem(DarkProblem& p, const std::vector<std::string>& options, float size) {
  const DarkAttention& s = p.shape;
  const auto has = [&](const std::string& option) {
    return std::find(options.begin(), options.end(), option) != options.end();
  };
  const float row = size / std::sqrt(static_cast<float>(s.D) * s.scale);
  p.q = normal_values(s.B * s.H * s.T * s.D, 1, row);
  p.k = normal_values(s.B * s.G * s.S * s.D, 2, row);
  p.v = normal_values(s.B * s.G * s.S * s.Dv, 3, 1.0F);
  p.d_o = normal_values(s.B * s.H * s.T * s.Dv, 4, 1.0F);
  p.draws = normal_values(s.N * s.F * s.R, 5, 1.0F);
  const float map = 1.0F / std::sqrt(static_cast<float>(s.D));
  if (has("factor")) {
    p.factor = normal_values(s.N * s.R * s.D, 6, map);
  }
  if (has("key_factor")) {
    p.key_factor = normal_values(s.N * s.R * s.D, 7, map);
  }
  if (has("weights")) {
    p.log_weights = normal_values(s.N * s.F, 8, 0.5F);
  }
  if (has("query_center")) {
    p.query_center = normal_values(s.N * s.D, 9, 0.5F * row);
  }
  if (has("key_center")) {
    p.key_center = normal_values(s.G * s.D, 10, 0.5F * row);
  }
  p.gate_per_token = has("gate=token");
  if (has("gate=head") || has("gate=token")) {
    p.gate = normal_values(p.gate_per_token ? s.B * s.H * s.T * 2 : s.H * 2, 11, 0.7F);
  }
}

inline DarkProblem read_problem(const std::string& line, float size = 2.0F) {
  DarkProblem p;
  p.name = line;
  DarkAttention& s = p.shape;
  std::vector<std::string> options;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::size_t digits = word.find_first_of("0123456789");
    const std::string key = word.substr(0, digits);
    const std::size_t value = digits == std::string::npos ? 0 : std::stoul(word.substr(digits));
    if (digits == std::string::npos) {
      options.push_back(word);
      s.causal = s.causal && word != "full";
      continue;
    }
    std::size_t* const sizes[] = {&s.B,  &s.H, &s.G, &s.N,      &s.T,     &s.S,    &s.D,
                                  &s.Dv, &s.F, &s.R, &s.window, &s.sinks, &s.chunk};
    const char* const names[] = {"B",  "H", "G", "N",      "T",     "S",    "D",
                                 "Dv", "F", "R", "window", "sinks", "chunk"};
    bool known = false;
    for (std::size_t i = 0; i < std::size(names); ++i) {
      if (key == names[i]) {
        *sizes[i] = value;
        known = true;
      }
    }
    require(known, "shape file: unknown word '", word, "' in '", line, "'");
  }
  s.N = s.N == 0 ? s.G : s.N;
  s.S = s.S == 0 ? s.T : s.S;
  s.Dv = s.Dv == 0 ? s.D : s.Dv;
  s.R = s.R == 0 ? s.D : s.R;
  s.scale = 1.0F / std::sqrt(static_cast<float>(s.D));
  fill_problem(p, options, size);
  return p;
}

inline std::vector<std::string> read_shapes(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), path, ": cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace darkformer::kernels
