"""Curves as a picture: an SVG file without anything around it."""
# SPDX-License-Identifier: Apache-2.0
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 400, 60, 40, 110, 45
COLOURS = ["#2563eb", "#dc2626", "#059669", "#9333ea", "#d97706", "#475569"]


def ticks(low, high):
    """About five round numbers from low to high."""
    raw = (high - low) / 5
    size = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 1.0
    while size > raw:
        size /= 10
    size *= max(factor for factor in (1, 2, 5) if factor * size <= raw)
    first = -(-low // size)
    count = int((high / size) - first) + 1
    return [(first + i) * size for i in range(count)]


def write_curves(path, curves, title, x, y):
    """curves: {name: [(x, y), ...]}."""
    points = [point for curve in curves.values() for point in curve]
    if not points:
        raise ValueError("write_curves: no points")
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    right, high = right + (right == left), high + (high == low)

    def at(point):
        return (LEFT + (point[0] - left) / (right - left) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (point[1] - low) / (high - low) * (HEIGHT - TOP - BOTTOM))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>',
           f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" '
           f'text-anchor="middle">{escape(y)}</text>']
    for value in ticks(low, high):
        _, row = at((left, value))
        out.append(f'<path d="M{LEFT} {row:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{row + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in ticks(left, right):
        column, _ = at((value, low))
        out.append(f'<text x="{column:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    for (name, curve), colour in zip(curves.items(), COLOURS):
        path_data = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in map(at, curve))
        end = at(curve[-1])
        out.append(f'<path d="{path_data}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
                   f'<text x="{end[0] + 6:.1f}" y="{end[1] + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    path.write_text("\n".join(out + ["</svg>"]) + "\n", encoding="utf-8")
