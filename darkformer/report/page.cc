// The page is put together from its parts; drawing is done by page.js in the browser.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/report/page.h"

#include "darkformer/base/atomic_file.h"
#include "darkformer/report/assets.h"
#include "darkformer/report/results.h"

namespace darkformer::report {
namespace {

// In HTML, "<" in a script could end it or open a comment; in JSON, \u003c is the same letter.
std::string script_json(const OrderedJson& value) {
  const std::string text = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  std::string safe;
  for (const char letter : text) {
    safe += letter == '<' ? std::string("\\u003c") : std::string(1, letter);
  }
  return safe;
}

std::string html_text(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    safe += letter == '<' ? "&lt;" : letter == '&' ? "&amp;" : std::string(1, letter);
  }
  return safe;
}

}  // namespace

std::string report_page(const OrderedJson& results, const std::string& source) {
  check_results(results, source);
  const Assets& assets = page_assets();
  return concat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
      html_text(get_value<std::string>(results, "title", source)),
      "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n", assets.chart_style, assets.style,
      "</style>\n</head>\n<body>\n<main></main>\n"
      "<noscript>This page draws its charts with JavaScript.</noscript>\n"
      "<script type=\"application/json\" id=\"results\">",
      script_json(results), "</script>\n<script>\n", assets.chart_script, "\n</script>\n<script>\n",
      assets.script, "</script>\n</body>\n</html>\n");
}

void write_report(const std::filesystem::path& results, const std::filesystem::path& page) {
  write_file_atomically(page, report_page(read_ordered_json(results), results.string()));
}

}  // namespace darkformer::report
