// The scripts and styles of the page, compiled into the program (cmake/ReportAssets.cmake).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace darkformer::report {

struct Assets {
  std::string_view chart_script, chart_style;  // uPlot
  std::string_view script, style;              // page.js, page.css
};

const Assets& page_assets();

}  // namespace darkformer::report
