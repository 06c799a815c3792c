// Vectorised conversion between float32 and the stored 16-bit floats.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/convert.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

template <class Stored>
void widen(const Stored* from, std::size_t count, float* to) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(load_stored(d, from + i), d, to + i);
  }
  if (i < count) {
    HWY_ALIGN float tail[hn::MaxLanes(d)];
    hn::Store(load_stored_tail(d, from + i, count - i), d, tail);
    std::memcpy(to + i, tail, (count - i) * sizeof(float));
  }
}

template <class Stored>
void narrow(const float* from, std::size_t count, Stored* to) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_stored(d, hn::LoadU(d, from + i), to + i);
  }
  if (i < count) {
    HWY_ALIGN Stored tail[hn::MaxLanes(d)];
    store_stored(d, load_stored_tail(d, from + i, count - i), tail);
    std::memcpy(to + i, tail, (count - i) * sizeof(Stored));
  }
}

void widen_any(const void* from, StoredType type, std::size_t count, float* to) {
  with_stored_type(from, type, [=](const auto* typed) HWY_ATTR { widen(typed, count, to); });
}

void narrow_any(const float* from, StoredType type, std::size_t count, void* to) {
  with_stored_type(to, type, [=](const auto* typed) HWY_ATTR {
    using Stored = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    narrow(from, count, static_cast<Stored*>(to));
  });
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
HWY_EXPORT(widen_any);
HWY_EXPORT(narrow_any);

void convert_to_float(const void* from, StoredType type, std::size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(widen_any)(from, type, count, to);
}

void convert_from_float(const float* from, StoredType type, std::size_t count, void* to) {
  HWY_DYNAMIC_DISPATCH(narrow_any)(from, type, count, to);
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
