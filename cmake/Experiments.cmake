# The files of experiments/ as one C++ file, so that an installed program has them. Run as a script (-P), it writes the file; included,
# it adds the rule.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// Written by cmake/Experiments.cmake.\n#include \"darkformer/reproduce/embedded.h\"\n\nnamespace darkformer::reproduce {\n\n")
  string(APPEND text "const std::vector<EmbeddedFile>& embedded_experiments() {\n  static const std::vector<EmbeddedFile> kFiles = {\n")
  file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.json)
  list(SORT files)
  foreach(path ${files})
    file(READ "${FOLDER}/${path}" content)
    string(APPEND text "{\"${path}\", R\"DARKFILE(${content})DARKFILE\"},\n")
  endforeach()
  string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace darkformer::reproduce\n")
  file(WRITE "${OUTPUT}" "${text}")
  return()
endif()

set(experiments ${PROJECT_SOURCE_DIR}/experiments)
set(EXPERIMENTS ${PROJECT_BINARY_DIR}/generated/experiments.cc)
file(GLOB_RECURSE experiment_files CONFIGURE_DEPENDS ${experiments}/*.json)
add_custom_command(OUTPUT ${EXPERIMENTS}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${experiments} -DOUTPUT=${EXPERIMENTS} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${experiment_files} ${CMAKE_CURRENT_LIST_FILE} COMMENT "Putting the experiments into the program" VERBATIM)
