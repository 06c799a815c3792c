// Means, buckets and their JSON.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/measures.h"

#include <cmath>

namespace darkformer {
namespace {

double mean(double sum, std::int64_t count) {
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

}  // namespace

double Measures::loss() const {
  return mean(loss_sum, tokens);
}

double Measures::perplexity() const {
  return std::exp(loss());
}

double Measures::accuracy() const {
  return mean(static_cast<double>(correct), tokens);
}

double Measures::kl() const {
  return mean(kl_sum, tokens);
}

double Measures::agreement() const {
  return mean(static_cast<double>(agreeing), tokens);
}

Measures& Measures::operator+=(const Measures& other) {
  tokens += other.tokens;
  loss_sum += other.loss_sum;
  correct += other.correct;
  kl_sum += other.kl_sum;
  agreeing += other.agreeing;
  return *this;
}

std::int64_t position_bucket(std::int64_t position) {
  std::int64_t bucket = 0;
  while (position >= bucket_begin(bucket + 1)) {
    ++bucket;
  }
  return bucket;
}

std::int64_t bucket_begin(std::int64_t bucket) {
  return bucket == 0 ? 0 : kFirstBucket << (bucket - 1);
}

void add_means(const Measures& measures, bool compared, OrderedJson& object) {
  object["loss"] = measures.loss();
  object["perplexity"] = measures.perplexity();
  object["accuracy"] = measures.accuracy();
  object["tokens"] = measures.tokens;
  if (compared) {
    object["kl"] = measures.kl();
    object["agreement"] = measures.agreement();
  }
}

OrderedJson evaluation_json(const EvaluationResult& result) {
  OrderedJson object;
  add_means(result.all, result.compared, object);
  OrderedJson buckets = OrderedJson::array();
  for (std::size_t b = 0; b < result.by_position.size(); ++b) {
    const auto bucket = static_cast<std::int64_t>(b);
    OrderedJson entry;
    entry["first"] = bucket_begin(bucket);
    entry["last"] = bucket_begin(bucket + 1) - 1;
    add_means(result.by_position[b], result.compared, entry);
    buckets.push_back(std::move(entry));
  }
  object["by_position"] = std::move(buckets);
  return object;
}

}  // namespace darkformer
