# Everything that comes from outside, found once, under one name each.
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(hwy REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# oneDNN: the library by hand, because Debian 12's dnnl-config.cmake asks for OpenCL headers that nothing here needs.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl_gemm INTERFACE)
target_include_directories(dnnl_gemm SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl_gemm INTERFACE ${DNNL_LIBRARY})

find_package(Torch REQUIRED)
# libtorch's headers are not warning-free and its target carries flags of its own: one clean name for it.
add_library(torch_cpp INTERFACE)
target_include_directories(torch_cpp SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(torch_cpp INTERFACE ${TORCH_LIBRARIES})
target_compile_options(torch_cpp INTERFACE ${TORCH_CXX_FLAGS})

if(DARKFORMER_TESTS)
  find_package(GTest REQUIRED)
  pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
endif()
if(DARKFORMER_BENCH)
  find_package(benchmark REQUIRED)
endif()
