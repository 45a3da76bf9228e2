// Places of texts beside marks, where they overlap nothing.

const SIDES = [[1, -1], [1, 1], [-1, -1], [-1, 1], [1, 0], [-1, 0], [0, -1], [0, 1]];
const LINE = 12; // height of a text in pixels

/**
 * The centre of each text of *texts*, `{at, away, width}`, beside the place `at`; nothing where there is no room.
 * Texts overlap neither one another nor *disks*, `[x, y, radius]`, and stay within *width* and *height*.
 */
function placeTexts(texts, disks, width, height) {
  const placed = [];
  return texts.map((text) => {
    const half = [text.width / 2, LINE / 2];
    const centres = SIDES.map((side) => [0, 1].map((axis) => text.at[axis] + side[axis] * (text.away * (side[0] && side[1] ? 0.7 : 1) + half[axis])));
    const centre = centres.find(([x, y]) => {
      const inside = x >= half[0] && x <= width - half[0] && y >= half[1] && y <= height - half[1];
      const free = placed.every((box) => Math.abs(box.x - x) >= box.half[0] + half[0] || Math.abs(box.y - y) >= LINE);
      return inside && free && disks.every((disk) => distance(disk, [x, y], half) >= disk[2]);
    });
    if (centre) placed.push({ x: centre[0], y: centre[1], half });
    return centre;
  });
}

/** The distance of a point from a box around *centre*; 0 within it. */
function distance([x, y], centre, half) {
  return Math.hypot(Math.max(0, Math.abs(x - centre[0]) - half[0]), Math.max(0, Math.abs(y - centre[1]) - half[1]));
}

/** The largest of 1, 2 and 5 times a power of ten up to *limit*. */
function roundLength(limit) {
  const decade = 10 ** Math.floor(Math.log10(limit));
  return Math.max(...[1, 2, 5].map((factor) => factor * decade).filter((length) => length <= limit));
}
