// Moments by blocks: products in float32, sums in double.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/moments.h"

#include <ATen/ATen.h>

#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/ops/linear.h"

namespace darkformer {
namespace {

using at::Tensor;

// (B,heads,T,D) -> (heads,D,D): sum over batch and time of x x^T
Tensor products(const Tensor& x) {
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < x.size(1); ++h) {
    const Tensor rows = x.select(1, h).reshape({-1, x.size(3)}).t().contiguous();  // (D,BT)
    heads.push_back(ops::linear(rows, rows));
  }
  return at::stack(heads).to(at::kDouble);
}

// (heads,...) -> (groups,...): the mean of the heads of a group, or each head for all its groups.
Tensor pooled(const Tensor& x, std::int64_t groups) {
  const std::int64_t heads = x.size(0);
  if (groups > heads) {
    return x.repeat_interleave(groups / heads, 0);
  }
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] = heads / groups;
  shape.insert(shape.begin(), groups);
  return x.reshape(shape).mean(1);
}

Tensor covariance(const Tensor& products,
                  const Tensor& sum,
                  std::int64_t tokens,
                  std::int64_t groups) {
  const Tensor mean = pooled(sum, groups) / tokens;
  return pooled(products, groups) / tokens - mean.unsqueeze(-1) * mean.unsqueeze(-2);
}

}  // namespace

LayerMoments::LayerMoments(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim)
    : query_sum_(at::zeros({heads, head_dim}, at::kDouble)),
      query_products_(at::zeros({heads, head_dim, head_dim}, at::kDouble)),
      key_sum_(at::zeros({kv_heads, head_dim}, at::kDouble)),
      key_products_(at::zeros({kv_heads, head_dim, head_dim}, at::kDouble)) {}

LayerMoments::LayerMoments(std::int64_t tokens, const Sums& sums)
    : tokens_(tokens),
      query_sum_(sums.queries),
      query_products_(sums.query_products),
      key_sum_(sums.keys),
      key_products_(sums.key_products) {
  const auto fits = [](const Tensor& sum, const Tensor& products) {
    return sum.dim() == 2 && products.dim() == 3 && sum.scalar_type() == at::kDouble &&
           products.scalar_type() == at::kDouble && products.size(0) == sum.size(0) &&
           products.size(1) == sum.size(1) && products.size(2) == sum.size(1);
  };
  require(tokens >= 0 && fits(query_sum_, query_products_) && fits(key_sum_, key_products_) &&
              query_sum_.size(1) == key_sum_.size(1) && key_sum_.size(0) > 0 &&
              query_sum_.size(0) % key_sum_.size(0) == 0,
          "moments: sums of shapes that do not fit each other");
}

void LayerMoments::add(const Tensor& q, const Tensor& k) {
  const at::NoGradGuard no_gradients;
  query_sum_ += q.to(at::kDouble).sum(at::IntArrayRef({0, 2}));
  key_sum_ += k.to(at::kDouble).sum(at::IntArrayRef({0, 2}));
  query_products_ += products(q.detach());
  key_products_ += products(k.detach());
  tokens_ += q.size(0) * q.size(2);
}

Tensor LayerMoments::query_mean(std::int64_t groups) const {
  return pooled(query_sum_, groups) / tokens_;
}
Tensor LayerMoments::key_mean(std::int64_t groups) const {
  return pooled(key_sum_, groups) / tokens_;
}
Tensor LayerMoments::query_covariance(std::int64_t groups) const {
  return covariance(query_products_, query_sum_, tokens_, groups);
}
Tensor LayerMoments::key_covariance(std::int64_t groups) const {
  return covariance(key_products_, key_sum_, tokens_, groups);
}

}  // namespace darkformer
