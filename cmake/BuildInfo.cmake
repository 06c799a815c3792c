# darkformer/build_info.h: version and commit, written anew at each build when they changed.
# Included, it adds the target `build_info`; run as a script (-P), it writes the file.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git rev-parse --short=10 HEAD WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "unknown")
  else()
    execute_process(COMMAND git diff --quiet HEAD WORKING_DIRECTORY ${SOURCE_DIR} RESULT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND commit "+")
    endif()
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Written by cmake/BuildInfo.cmake.
#pragma once

namespace darkformer {
inline constexpr const char* kBuildVersion = "@VERSION@";
inline constexpr const char* kBuildCommit = "@commit@";
}  // namespace darkformer
]])
  return()
endif()

set(BUILD_INFO_HEADER ${PROJECT_BINARY_DIR}/generated/darkformer/build_info.h)
add_custom_target(build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
    -DOUTPUT=${BUILD_INFO_HEADER} -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${BUILD_INFO_HEADER} COMMENT "" VERBATIM)
