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
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

# oneDNN: the library by hand, because Debian 12's dnnl-config.cmake asks for OpenCL headers that nothing here needs.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl_gemm INTERFACE)
target_include_directories(dnnl_gemm SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl_gemm INTERFACE ${DNNL_LIBRARY})

include(Torch)

# Debian's python3-torch belongs to the system's python3, whatever else the PATH holds. With another libtorch: the
# python3 that has its torch.
find_program(SYSTEM_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)

if(DARKFORMER_TESTS)
  find_package(GTest REQUIRED)
  pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
endif()
if(DARKFORMER_BENCH)
  find_package(benchmark REQUIRED)
endif()
