// A results file as one HTML page that needs nothing but itself: charts, tables, words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "darkformer/base/json.h"

namespace darkformer::report {

// The page of a results object (docs/file_formats.md). Error, naming `source`, where it is not one.
std::string report_page(const OrderedJson& results, const std::string& source);

// Reads a results file and writes its page, so that figures are drawn again without computing.
void write_report(const std::filesystem::path& results, const std::filesystem::path& page);

}  // namespace darkformer::report
