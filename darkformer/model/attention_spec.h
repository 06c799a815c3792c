// Which attention a layer uses, and with which options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace darkformer {

enum class AttentionKind : std::uint8_t {
  kExact,
  kPerformer,
  kDark,
  kLfk,
  kImportance,
  kOprf,
  kSderf,
  kAderf,
  kHedgehog,
  kWindow,
  kConstant,
  kRandom,
};

// "dark"; the names of the command line and of config.json.
std::string_view attention_kind_name(AttentionKind kind);
std::optional<AttentionKind> find_attention_kind(std::string_view name);

// Has it parameters that are learned: a covariance, draws or maps?
bool learns(AttentionKind kind);

// Which parameters a kind has.
bool has_features(AttentionKind kind);     // all but exact and the baselines
bool has_draws(AttentionKind kind);        // draws (N,F,R): random features
bool has_factor(AttentionKind kind);       // factor (N,R,D); of hedgehog (N,F/2,D)
bool has_log_weights(AttentionKind kind);  // log_weights (N,F)

// N, the number of sets of per-head parameters: G, H or 1.
enum class Placement : std::uint8_t { kKvHead, kQueryHead, kLayer };

// Does M act on queries and keys before or after they are rotated?
enum class RopeOrder : std::uint8_t { kAfter, kBefore };

// By which kernel are the near keys (window and sinks) weighted: exp(q^T Sigma k) as the far ones,
// or exp(q . k) as the model was trained?
enum class NearKernel : std::uint8_t { kFactor, kModel };

// What an entry of config.json means that does not say: hedgehog has no other than the model's.
NearKernel usual_near_kernel(AttentionKind kind);

// Which keys do the features see beside a window and sinks: those beyond them, or all?
enum class FarKeys : std::uint8_t { kBeyond, kAll };

// The fields below `kind` mean something where has_features(kind), and are at their defaults
// elsewhere; but `window` is what attention kWindow sees.
struct AttentionSpec {
  AttentionKind kind = AttentionKind::kExact;
  std::int64_t features = 0;                 // F
  std::int64_t rank = 0;                     // R
  Placement placement = Placement::kKvHead;  // "kv-head", "query-head", "layer"
  RopeOrder rope = RopeOrder::kAfter;        // "after", "before"
  std::int64_t window = 0;                   // keys next to the query that stay exact; 0: none
  std::int64_t sinks = 0;                    // first keys of the sequence that stay exact
  NearKernel near = NearKernel::kFactor;     // "factor", "model"
  FarKeys far = FarKeys::kBeyond;            // "beyond", "all"
  bool orthogonal = true;
  bool centre = false;          // query_center, key_center
  bool gate = false;            // gate_scale, gate_bias, gate_weight between window and far field
  bool learned_draws = false;   // the draws are fitted or trained as M is, and never drawn again
  bool own_key_factor = false;  // dark: keys have a factor of their own, learned as M is
  bool folded = false;          // q_proj and k_proj hold a factor: exact attention cannot come back

  bool operator==(const AttentionSpec&) const = default;
};

// Are the draws learned: always (lfk), or here?
bool learns_draws(const AttentionSpec& spec);

// Is there a key_factor, of the size of the factor: always (aderf, hedgehog), or here?
bool has_key_factor(const AttentionSpec& spec);

// Rows of the factors: R, or F/2 of hedgehog's.
std::int64_t factor_rows(const AttentionSpec& spec);

// Error naming `where` unless the options fit each other and a head of size `head_dim`.
void check_attention_spec(const AttentionSpec& spec,
                          std::int64_t head_dim,
                          const std::string& where);

}  // namespace darkformer
