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

# Gloo, through which several processes train together. Debian's libtorch is built with it; its headers are a package of
# their own, and without them training runs in one process only.
add_library(gloo_cpp INTERFACE)
find_path(GLOO_INCLUDE_DIR gloo/context.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE_DIR AND GLOO_LIBRARY)
  set(DARKFORMER_GLOO ON)
  target_include_directories(gloo_cpp SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
  target_link_libraries(gloo_cpp INTERFACE ${GLOO_LIBRARY})
else()
  message(WARNING "Gloo's headers were not found (Debian: libgloo-dev): training will run in one process only")
endif()
