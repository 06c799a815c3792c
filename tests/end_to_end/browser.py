"""Report pages in a real browser."""
# SPDX-License-Identifier: Apache-2.0
import json
import re
import shutil
import subprocess
import tempfile

assert shutil.which("chromium"), "the program chromium is missing (make packages installs it)"

# Runs behind the page's own script and leaves what it saw in the title.
PROBE = """
<script>
(() => {
  const ink = (canvas) => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let i = 3; i < pixels.length; i += 4) count += pixels[i] > 0;
    return count;
  };
  setTimeout(() => {
    const canvases = [...document.querySelectorAll('canvas')];
    const before = canvases.map(ink);
    const first = document.querySelector('.legend');
    const button = first.querySelector('button');
    button.click();
    const pressed = button.getAttribute('aria-pressed');
    setTimeout(() => {
      const after = ink(canvases[0]);
      button.click();
      document.title = 'PROBE' + JSON.stringify({
        errors: window.probeErrors, charts: canvases.length, least: Math.min(...before),
        pressed, less: after !== before[0], again: button.getAttribute('aria-pressed'),
        wide: document.documentElement.scrollWidth - window.innerWidth,
        dark: getComputedStyle(document.body).backgroundColor,
        heat: document.querySelectorAll('.heat td[title]').length,
        statements: document.querySelectorAll('.verdict').length,
        command: document.querySelector('footer pre').textContent,
      });
    }, 50);
  }, 50);
})();
</script>
"""
CATCH = """<script>
window.probeErrors = [];
addEventListener('error', (event) => window.probeErrors.push(String(event.message)));
console.error = (...words) => window.probeErrors.push(words.join(' '));
</script>"""


def browse(page, *flags):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--enable-logging=stderr", "--virtual-time-budget=8000", *flags, page.as_uri()]
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run([*command[:1], f"--user-data-dir={profile}", *command[1:]], capture_output=True, text=True,
                              timeout=240, check=True)


def probe(case, page, *flags):
    """What a browser makes of a page; the test fails if it complains about something."""
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text().replace("<main>", CATCH + "<main>", 1).replace("</body>", PROBE + "</body>"))
    done = browse(probed, "--dump-dom", *flags)
    # The browser's hint about reading pixels is for the probe.
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "willReadFrequently" not in line]
    case.assertEqual(said, [])
    found = re.search(r"<title>PROBE(.*?)</title>", done.stdout, re.S)
    case.assertTrue(found, done.stdout[:300])
    return json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def check_page(case, page, charts, command, width=1200, *flags):
    """Charts are drawn, their legends toggle, nothing is wider than the screen, the command stands below. -> what was seen"""
    seen = probe(case, page, f"--window-size={width},900", *flags)
    case.assertEqual(seen["errors"], [])
    case.assertEqual(seen["charts"], charts)
    case.assertGreater(seen["least"], 1000)
    case.assertEqual((seen["pressed"], seen["again"], seen["less"]), ("false", "true", True))
    case.assertLessEqual(seen["wide"], 0)
    case.assertIn(command, seen["command"])
    return seen


def charts_of(results):
    """How many charts a page with these results.json has."""
    return sum(figure["type"] == "lines" for section in results["sections"] for figure in section["figures"])
