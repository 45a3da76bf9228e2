// Unpacks the film: a header, and arrays that lie end to end in one compressed block.

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array };

/** The film in the page, its arrays as typed arrays and its times in seconds. */
async function unpack() {
  const film = JSON.parse(document.getElementById("film").textContent);
  const bytes = Uint8Array.from(atob(film.block), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const block = await new Response(inflated).arrayBuffer();
  let at = 0;
  for (const [name, type, length] of film.arrays) {
    film[name] = new TYPES[type](block, at, length);
    at += film[name].byteLength;
  }
  const tick = film.end_s / (2 ** 31 - 1);
  for (const [name] of film.arrays) {
    if (/_(time|start|open|close)$/.test(name)) film[name] = summed(film[name], tick);
  }
  film.way_end = film.way_start.map((start, index) => start + film.way_length[index] * tick);
  return film;
}

/** Times in seconds from the steps between them in ticks. */
function summed(steps, tick) {
  let sum = 0;
  return Float64Array.from(steps, (step) => (sum += step) * tick);
}

/** How many of the rising *times* are no later than *at*. */
function upTo(times, at) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first of rising *times* after *at*, and the last before it; nothing if there is none. */
const after = (times, at) => times[upTo(times, at)];
const before = (times, at) => times.subarray(0, upTo(times, at)).findLast((time) => time < at);
