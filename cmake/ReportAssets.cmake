# The scripts and styles of the report page, as one C++ file: the chart library from the npm registry (fetched once, pinned by its
# checksum) and our own page.js and page.css. Run as a script (-P), it writes the file; included, it adds the rule.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// Written by cmake/ReportAssets.cmake.\n#include \"darkformer/report/assets.h\"\n\nnamespace darkformer::report {\n\n")
  string(APPEND text "const Assets& page_assets() {\n  static const Assets kAssets = {\n")
  foreach(file ${CHARTS}/dist/uPlot.iife.min.js ${CHARTS}/dist/uPlot.min.css ${PAGE}/page.js ${PAGE}/page.css)
    file(READ "${file}" content)
    string(APPEND text "R\"DARKASSET(${content})DARKASSET\",\n")
  endforeach()
  string(APPEND text "  };\n  return kAssets;\n}\n\n}  // namespace darkformer::report\n")
  file(WRITE "${OUTPUT}" "${text}")
  return()
endif()

# uPlot (MIT): 50 KB, no dependencies of its own.
set(CHARTS_PACKAGE uplot@1.6.32)
set(CHARTS_SHA512 2883159c6ebccefbb95d751b0b82d010f9e1c0ec41b8bc96d401eda66e882935c89a46cb824332fa369b8cb8122cc6ac36e186cd09bf7a9ded3a4c93c6989023)
set(charts ${PROJECT_SOURCE_DIR}/build/npm/${CHARTS_PACKAGE})  # one for all presets
set(page ${PROJECT_SOURCE_DIR}/darkformer/report)
set(REPORT_ASSETS ${PROJECT_BINARY_DIR}/generated/report_assets.cc)
add_custom_command(OUTPUT ${charts}/dist/uPlot.iife.min.js ${charts}/dist/uPlot.min.css
  COMMAND ${PROJECT_SOURCE_DIR}/tools/npm_package ${CHARTS_PACKAGE} ${CHARTS_SHA512} ${charts}
  DEPENDS ${PROJECT_SOURCE_DIR}/tools/npm_package COMMENT "Fetching ${CHARTS_PACKAGE}" VERBATIM)
add_custom_command(OUTPUT ${REPORT_ASSETS}
  COMMAND ${CMAKE_COMMAND} -DCHARTS=${charts} -DPAGE=${page} -DOUTPUT=${REPORT_ASSETS} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${charts}/dist/uPlot.iife.min.js ${charts}/dist/uPlot.min.css ${page}/page.js ${page}/page.css ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Putting the report page into the program" VERBATIM)
