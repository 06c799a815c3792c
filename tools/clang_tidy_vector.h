// Included before everything by tools/check, so that clang-tidy can read libtorch's headers.
// SPDX-License-Identifier: Apache-2.0
//
// libstdc++ 12 makes std::vector constexpr in C++20. clang 14 then instantiates its members where
// they are named, and libtorch names those of vector<IValue> where IValue is not complete yet; g++
// waits. Here <vector> is read without constexpr, which nothing in the tree relies on. __fill_a1 of
// vector<bool> was declared constexpr by <memory>, hence the other name.
#pragma once

#include <memory>
#include <string>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
