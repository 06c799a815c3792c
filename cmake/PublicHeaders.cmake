# The headers of the op library that are installed. tools/api_pages makes docs/api_cpp.md from the first list.
set(DARKFORMER_PUBLIC_HEADERS
  ops/dark_attention.h
  ops/exact_attention.h
  ops/draw_features.h
  ops/random_attention.h
  ops/linear.h
  ops/rms_norm.h
  ops/rotary.h
  ops/embedding.h
  ops/gated_unit.h
  ops/cross_entropy.h
  base/error.h)
# What those include.
set(DARKFORMER_INCLUDED_HEADERS
  ops/libtorch.h
  kernels/rotary.h
  kernels/heads_view.h
  base/activation.h
  base/aligned_buffer.h)
