// What is drawn with: the canvas, the page's colours, and simple shapes.

const VIRIDIS = "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725".split(" ");
const RAMP = Array.from({ length: 64 }, (_, index) => {
  const at = (index / 63) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const mixed = [0, 2, 4].map((place) => {
    const [from, to] = [VIRIDIS[low], VIRIDIS[low + 1]].map((text) => parseInt(text.slice(place, place + 2), 16));
    return Math.round(from + (to - from) * (at - low));
  });
  return `rgb(${mixed})`;
});

const STAR = Array.from({ length: 10 }, (_, corner) => {
  const [reach, turn] = [corner % 2 ? 5 : 12, (Math.PI * corner) / 5];
  return [reach * Math.sin(turn), -reach * Math.cos(turn)];
});
const SHAPES = {
  tower: [[0, -11], [10, 8], [-10, 8]],
  router: [[-7, -7], [7, -7], [7, 7], [-7, 7]],
  server: STAR,
  won: [[0, -8], [8, 0], [0, 8], [-8, 0]],
};

class Brush {
  constructor(canvas) {
    Object.assign(this, { canvas, pen: canvas.getContext("2d") });
  }

  /** Take the canvas's size and the page's colours. */
  fit() {
    const { canvas } = this;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    [this.width, this.height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [this.width * ratio, this.height * ratio];
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(canvas);
    for (const name of ["page", "text", "soft", "blue", "delivered", "failed", "down", "rare"]) {
      this[name] = style.getPropertyValue(`--${name}`).trim();
    }
  }

  clear() {
    this.pen.clearRect(0, 0, this.width, this.height);
  }

  /** How strongly all that follows is drawn, from 0 to 1. */
  fade(strength) {
    this.pen.globalAlpha = strength;
  }

  line(points, colour, width, dashes = []) {
    this.begin(colour, width, dashes);
    points.forEach(([x, y]) => this.pen.lineTo(x, y));
    this.pen.stroke();
  }

  ring([x, y], radius, colour, width) {
    this.begin(colour, width);
    this.pen.arc(x, y, radius, 0, 2 * Math.PI);
    this.pen.stroke();
  }

  cross([x, y], size, colour) {
    this.begin(colour, Math.max(1.5, size / 3));
    for (const tilt of [-1, 1]) {
      this.pen.moveTo(x - size, y - tilt * size);
      this.pen.lineTo(x + size, y + tilt * size);
    }
    this.pen.stroke();
  }

  disk([x, y], radius, fill, edge = fill, width = 0.7) {
    this.begin(edge, width);
    this.pen.arc(x, y, radius, 0, 2 * Math.PI);
    this.fill(fill);
    this.pen.stroke();
  }

  /** One of `SHAPES`, with an edge around it. */
  shape(name, [x, y], fill, edge) {
    this.begin(edge, 2);
    SHAPES[name]?.forEach(([dx, dy]) => this.pen.lineTo(x + dx, y + dy));
    this.pen.closePath();
    this.pen.stroke();
    this.fill(fill);
  }

  box(x, y, size, fill) {
    this.pen.fillStyle = fill;
    this.pen.fillRect(x - size / 2, y - size / 2, size, size);
  }

  /** Text around a place; the page's colour around it lets it be read on anything. */
  label(text, [x, y], colour, bold) {
    const { pen } = this;
    pen.font = `${bold ? 600 : 400} 11px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    this.begin(this.page, 3);
    pen.strokeText(text, x, y);
    pen.fillStyle = colour;
    pen.fillText(text, x, y);
  }

  /** The width of a text in pixels, bold so that it has room in either case. */
  measure(text) {
    this.pen.font = "600 11px system-ui, sans-serif";
    return this.pen.measureText(text).width;
  }

  begin(colour, width, dashes = []) {
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = width;
    this.pen.setLineDash(dashes);
    this.pen.beginPath();
  }

  fill(colour) {
    this.pen.fillStyle = colour;
    this.pen.fill();
  }
}
