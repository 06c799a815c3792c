"""check_layers: green on a right tree, red on each kind of wrong include."""
import unittest

from tool_testing import ToolTest

CMAKE = """darkformer_folder(base LINK x)
darkformer_folder(kernels DEPENDS base LINK hwy::hwy)
darkformer_folder(ops DEPENDS base kernels)
darkformer_folder(commands DEPENDS base
  kernels ops LINK CLI11::CLI11)
"""


class CheckLayers(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("darkformer/CMakeLists.txt", CMAKE)
        self.write("darkformer/base/log.cc", '#include <spdlog/spdlog.h>\n#include "darkformer/base/log.h"\n')
        self.write("darkformer/kernels/gemm.cc", '#include <oneapi/dnnl/dnnl.h>\n#include "hwy/highway.h"\n')
        self.write("darkformer/ops/x.cc", '#include <torch/torch.h>\n#include "darkformer/kernels/gemm.h"\n')
        self.write("darkformer/commands/main.cc", '#include <iostream>\n#include "darkformer/ops/x.h"\n')

    def check(self):
        return self.run_tool("check_layers", "--root", self.root)

    def test_right_tree_is_green(self):
        code, text = self.check()
        self.assertEqual(code, 0, text)

    def test_wrong_includes_are_red(self):
        for name, include in [
            ("base/a.h", '"darkformer/kernels/gemm.h"'),
            ("kernels/a.cc", '"darkformer/ops/x.h"'),
            ("kernels/a.cc", "<torch/types.h>"),
            ("base/a.cc", "<c10/util/Half.h>"),
            ("kernels/matvec.cc", "<oneapi/dnnl/dnnl.hpp>"),
            ("ops/a.cc", '"hwy/highway.h"'),
            ("ops/a.h", "<torch/torch.h>"),
            ("ops/a.cc", "<CLI/CLI.hpp>"),
            ("base/a.cc", "<spdlog/spdlog.h>"),
            ("commands/a.cc", "<nlohmann/json.hpp>"),
            ("commands/a.cc", "<sentencepiece_processor.h>"),
            ("text/a.cc", "<pcre2.h>"),
            ("text/a.cc", "<utf8proc.h>"),
            ("ops/a.cc", "<gloo/context.h>"),
            ("ops/a.cc", "<torch/csrc/distributed/c10d/ProcessGroup.hpp>"),
            ("kernels/a.cc", "<omp.h>"),
            ("kernels/a.cc", "<gtest/gtest.h>"),
            ("kernels/a.cc", "<iostream>"),
            ("ops/a.cc", '"../kernels/gemm.h"'),
        ]:
            file = self.write(f"darkformer/{name}", f"// text\n#include {include}\n")
            code, text = self.check()
            self.assertEqual(code, 1, include)
            self.assertIn(f"darkformer/{name}:2:", text)
            file.unlink()

    def test_wrong_arrow_in_cmake_is_red(self):
        self.write("darkformer/CMakeLists.txt", CMAKE + "darkformer_folder(report DEPENDS base ops)\n")
        code, text = self.check()
        self.assertEqual(code, 1)
        self.assertIn("report may not depend on ops", text)

    def test_unknown_folder_is_red(self):
        self.write("darkformer/CMakeLists.txt", CMAKE + "darkformer_folder(helpers DEPENDS base)\n")
        self.assertEqual(self.check()[0], 1)

    def test_empty_tree_is_red(self):
        for file in self.root.rglob("*.*"):
            if file.suffix in (".cc", ".h"):
                file.unlink()
        self.assertEqual(self.check()[0], 1)


if __name__ == "__main__":
    unittest.main()
