// Loads and stores of stored weights as float32 vectors for one Highway target; included inside
// foreach_target, never alone.
// SPDX-License-Identifier: Apache-2.0

#if defined(DARKFORMER_KERNELS_STORED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_STORED_INL_H_
#undef DARKFORMER_KERNELS_STORED_INL_H_
#else
#define DARKFORMER_KERNELS_STORED_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "darkformer/kernels/convert.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Names for the 16 raw bits, so that overloads can tell them apart.
struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

// Highway 1.0's own float16 code is not exact for infinity, NaN and ties on targets that have no
// instruction for it: those take the scalar definition.
#undef DARK_HARDWARE_FLOAT16
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSSE3 || \
    HWY_TARGET == HWY_SSE4
#define DARK_HARDWARE_FLOAT16 0
#else
#define DARK_HARDWARE_FLOAT16 1
#endif

template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_stored(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_stored(D d, const Bfloat16* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_stored(D d, const Float16* from) {
#if DARK_HARDWARE_FLOAT16
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  HWY_ALIGN float values[hn::MaxLanes(d)];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    values[i] = float16_to_float(from[i].bits);
  }
  return hn::Load(d, values);
#endif
}

// The first `count` < Lanes(d) values, then zeros.
template <class D, class Stored>
HWY_INLINE hn::Vec<D> load_stored_tail(D d, const Stored* from, std::size_t count) {
  HWY_ALIGN Stored values[hn::MaxLanes(d)] = {};
  std::memcpy(values, from, count * sizeof(Stored));
  return load_stored(d, values);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_stored(D d, V v, float* to) {
  hn::StoreU(v, d, to);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_stored(D /*d*/, V v, Bfloat16* to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, v);
  const auto kept = hn::ShiftRight<16>(bits);
  // Nearest, ties to even: add half a unit, less one when the kept part is even.
  const auto odd = hn::And(kept, hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF))));
  const auto quiet = hn::Or(kept, hn::Set(d32, 0x40));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto result = hn::IfThenElse(nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, reinterpret_cast<std::uint16_t*>(to));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_stored([[maybe_unused]] D d, V v, Float16* to) {
#if DARK_HARDWARE_FLOAT16
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(to));
#else
  HWY_ALIGN float values[hn::MaxLanes(d)];
  hn::Store(v, d, values);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    to[i].bits = float_to_float16(values[i]);
  }
#endif
}

// Calls body with `data` as a pointer to its true element type.
template <class Body>
HWY_INLINE void with_stored_type(const void* data, StoredType type, const Body& body) {
  switch (type) {
    case StoredType::kFloat32:
      body(static_cast<const float*>(data));
      break;
    case StoredType::kBfloat16:
      body(static_cast<const Bfloat16*>(data));
      break;
    case StoredType::kFloat16:
      body(static_cast<const Float16*>(data));
      break;
  }
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_STORED_INL_H_
