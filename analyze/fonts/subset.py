#!/usr/bin/env python3
"""Makes chart.otf, the font that hook-analyze carries for its PNG charts, of Noto Sans CJK.

    python3 analyze/fonts/subset.py [NotoSansCJK-Regular.ttc]

Needs fontTools (`pip install fonttools`) and the font: Debian's and Ubuntu's package fonts-noto-cjk has it. In the subset
are printable ASCII, Latin-1, signs of figures, every other character of the analyser's own sources and templates, and
words that names of students' files are made of. `make font` runs it; what it writes is committed.
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection, TTFont

HERE = Path(__file__).resolve().parent
SOURCE = "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"
FAMILY = "Hook Chart Sans"
# A square stands for what is no character.
SIGNS = "□–—‘’“”•…→←↑↓−≈≠≤≥∞µμΩ‰"
# What stands in the names of files that are handed in.
NAMES = "学号姓名实验作业报告日志测试结果小组班级第一二三四五六七八九十附录数据最终版本新旧修改提交课程截图训练推理模型"


def characters():
    """Every character that a chart may hold by the program's own doing."""
    found = {chr(code) for code in range(0x20, 0x7F)} | {chr(code) for code in range(0xA0, 0x100)}
    found |= set(SIGNS) | set(NAMES)
    for folder in ("src", "templates"):
        for path in sorted((HERE.parent / folder).rglob("*.*")):
            found |= set(path.read_text(encoding="utf-8"))
    return {char for char in found if char.isprintable()}


def simplified(path):
    """The face for simplified Chinese."""
    if path.endswith(".ttc"):
        faces = TTCollection(path, lazy=True).fonts
        return next(face for face in faces if face["name"].getDebugName(1).startswith("Noto Sans CJK SC"))
    return TTFont(path)


def main():
    font = simplified(sys.argv[1] if len(sys.argv) > 1 else SOURCE)
    options = subset.Options()
    # A character without a glyph shows as an empty box.
    options.notdef_outline = True
    options.layout_features = ["kern"]
    options.hinting = False
    options.desubroutinize = False
    options.name_IDs = [0, 1, 2, 4, 5, 6, 7, 8, 9, 11, 13, 14]
    options.name_languages = [0x409]
    options.drop_tables += ["BASE", "VORG", "vhea", "vmtx", "GSUB"]
    worker = subset.Subsetter(options)
    wanted = characters()
    worker.populate(unicodes=[ord(char) for char in wanted])
    worker.subset(font)
    # Noto's own are 1.16 and -0.29 em, room for scripts that are not here: text would sit too low in its line.
    em = font["head"].unitsPerEm
    above, below = round(0.96 * em), round(-0.28 * em)
    font["hhea"].ascent, font["hhea"].descent, font["hhea"].lineGap = above, below, 0
    os2 = font["OS/2"]
    os2.sTypoAscender, os2.sTypoDescender, os2.sTypoLineGap = above, below, 0
    os2.usWinAscent, os2.usWinDescent = above, -below
    # A name of its own: this is not Noto, and must not pass for it where Noto is installed.
    for record in list(font["name"].names):
        renamed = {1: FAMILY, 4: FAMILY, 6: FAMILY.replace(" ", "")}.get(record.nameID)
        if renamed:
            font["name"].setName(renamed, record.nameID, record.platformID, record.platEncID, record.langID)
    font["CFF "].cff.fontNames = [FAMILY.replace(" ", "")]
    # The same input gives the same bytes.
    font.recalcTimestamp = False
    for table in font["cmap"].tables:
        if ord("□") in table.cmap:
            table.cmap[0xFFFD] = table.cmap[ord("□")]
    target = HERE / "chart.otf"
    font.save(target)
    missing = sorted(wanted - {chr(code) for code in font.getBestCmap()})
    print(f"{target.name}: {target.stat().st_size} bytes, {len(wanted) - len(missing)} characters, without {missing}")


if __name__ == "__main__":
    main()
