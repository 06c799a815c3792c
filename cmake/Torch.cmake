# libtorch under one clean name, torch_cpp. All that depends on its version is here and in
# darkformer/ops/libtorch.h (docs/libtorch.md). Another libtorch than the system's: -DCMAKE_PREFIX_PATH=... as its own documentation says.
find_package(Torch 1.13 REQUIRED)
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
# Wheels before 2.6 have the C++ ABI of g++ 4, and no library of a distribution can be linked beside them.
if("-D_GLIBCXX_USE_CXX11_ABI=0" IN_LIST torch_flags)
  message(FATAL_ERROR "libtorch ${Torch_VERSION} (${TORCH_INSTALL_PREFIX}) was built with _GLIBCXX_USE_CXX11_ABI=0; "
    "take a wheel of torch 2.7 or later, or a libtorch archive with the new ABI (docs/libtorch.md)")
endif()
# What is installed finds a libtorch outside the system's folders again.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
# libtorch's headers are not warning-free and its target carries flags of its own.
add_library(torch_cpp INTERFACE)
target_include_directories(torch_cpp SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(torch_cpp INTERFACE ${TORCH_LIBRARIES})
target_compile_options(torch_cpp INTERFACE ${torch_flags})
