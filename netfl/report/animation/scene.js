// Draws a moment: links, what is under way, users, nodes.

const MARGIN = 35; // pixels around what is drawn
const OUTCOMES = ["blue", "delivered", "failed"];
const NUMBERED = 60; // more users than this have no numbers
const NAMED = 40; // more nodes than this have no names
const CROWD = 40; // more ways than this are drawn thinly
const CROWDED = 200; // more than this have no lines

class Scene {
  constructor(canvas, film) {
    Object.assign(this, { film, brush: new Brush(canvas), nobody: film.names.length });
    const counts = new Uint32Array(film.users);
    for (const user of film.delivered_user) counts[user]++;
    this.most = counts.reduce((most, count) => Math.max(most, count), 0);
    this.fit();
  }

  /** Find where on the canvas everything stands. */
  fit() {
    const { brush, film } = this;
    brush.fit();
    const all = [film.user_xy, film.node_xy, film.frames];
    const [left, right] = extent(all, 0);
    const [south, north] = extent(all, 1);
    const [width, height] = [brush.width - 2 * MARGIN, brush.height - 2 * MARGIN];
    const scale = Math.min(width / (right - left || 1), height / (north - south || 1));
    this.place = (x, y) => [
      brush.width / 2 + (x - (left + right) / 2) * scale,
      brush.height / 2 - (y - (south + north) / 2) * scale,
    ];
    this.scale = scale;
    this.radius = Math.min(9, Math.max(1.3, 0.2 * Math.sqrt((brush.width * brush.height) / film.users)));
    this.users = null;
    this.nodes = this.spread();
  }

  /** Places of the nodes on the canvas; of those that stand at one place, the later ones move aside, inwards. */
  spread() {
    const found = [];
    for (let node = 0; node < this.nobody; node++) {
      const place = this.place(this.film.node_xy[2 * node], this.film.node_xy[2 * node + 1]);
      const aside = place[1] > this.brush.height / 2 ? -26 : 26;
      while (found.some(([x, y]) => Math.hypot(x - place[0], y - place[1]) < 20)) place[1] += aside;
      found.push(place);
    }
    return found;
  }

  /** Draw *moment*, users coloured by a learner's accuracy or, if that is -1, by how often they were delivered. */
  draw(moment, learner, calm) {
    this.brush.clear();
    if (!this.users || this.film.frames.length) {
      this.users = this.standing(moment.places);
      this.texts = this.arrange();
    }
    this.drawScale();
    this.drawLinks(moment);
    if (!calm) this.drawBroadcast(moment);
    const waiting = this.drawWays(moment);
    this.drawUsers(moment, learner);
    this.drawNodes(moment, waiting);
  }

  standing(places) {
    return Array.from({ length: this.film.users }, (_, user) => this.place(places[2 * user], places[2 * user + 1]));
  }

  /** Centres of the names of nodes and, after them, of the numbers of users; nothing where there is no room. */
  arrange() {
    const { film, brush, nodes, nobody, radius, users } = this;
    const names = nobody <= NAMED ? nodes.map((at, node) => ({ at, away: 13, width: brush.measure(named(film, film.users + node)) })) : [];
    const numbered = film.users <= NUMBERED ? users : [];
    const numbers = numbered.map((at, user) => ({ at, away: radius + 5, width: brush.measure(String(user)) }));
    const disks = [...nodes.map(([x, y]) => [x, y, 9]), ...numbered.map(([x, y]) => [x, y, radius])];
    const found = placeTexts([...names, ...numbers], disks, brush.width, brush.height);
    return { nodes: found.slice(0, names.length), users: found.slice(names.length) };
  }

  /** A bar of a round length, where positions are in metres. */
  drawScale() {
    const { film, brush, scale } = this;
    if (!film.metres) return;
    const metres = roundLength(brush.width / 4 / scale);
    const [left, y, end] = [12, brush.height - 12, 12 + metres * scale];
    brush.line([[left, y - 4], [left, y], [end, y], [end, y - 4]], brush.text, 1.5);
    const text = metres < 1000 ? `${metres} m` : `${metres / 1000} km`;
    brush.label(text, [end + 6 + brush.measure(text) / 2, y - 2], brush.text, false);
  }

  drawLinks(moment) {
    const { film, brush, nodes } = this;
    for (let link = 0; link < film.links.length / 2; link++) {
      const broken = moment.down[film.users + this.nobody + link];
      const ends = [nodes[film.links[2 * link]], nodes[film.links[2 * link + 1]]];
      brush.line(ends, broken ? brush.down : brush.soft, 1.5, broken ? [3, 6] : []);
      if (broken) brush.cross(along(ends, 0.5), 7, brush.down);
    }
  }

  /** A ring that grows from the server when a round opens. */
  drawBroadcast(moment) {
    const { film, brush } = this;
    const age = (moment.at - film.round_open[moment.round - 1]) / (moment.linger || 1);
    const server = film.roles.indexOf("server");
    if (film.step !== "round" || !(age >= 0 && age < 1) || server < 0) return;
    brush.fade(0.6 * (1 - age));
    brush.ring(this.nodes[server], 12 + 50 * age, brush.text, 2);
    brush.fade(1);
  }

  /** Everything under way; how many wait at each node. */
  drawWays(moment) {
    const { film, brush } = this;
    const waiting = new Uint32Array(this.nobody);
    for (const row of moment.ways) {
      const source = film.way_source[row];
      if (source !== film.way_target[row]) this.drawWay(moment, row);
      else if (moment.at < film.way_end[row] && source < this.nobody) waiting[source]++;
    }
    brush.fade(1);
    return waiting;
  }

  /** One stretch: its line, and a diamond if the update will count, a cross where it failed, else a dot. */
  drawWay(moment, row) {
    const { film, brush } = this;
    const [start, end, outcome] = [film.way_start[row], film.way_end[row], film.way_outcome[row]];
    const path = this.path(film.way_user[row], film.way_source[row], film.way_target[row]);
    const [over, colour, many] = [moment.at >= end, brush[OUTCOMES[outcome]], moment.ways.size];
    brush.fade(over ? Math.max(0, 1 - (moment.at - end) / (moment.linger || 1)) : 1);
    if (many <= CROWDED) brush.line(path, colour, outcome === 1 && many <= CROWD ? 3 : 1, outcome === 1 ? [] : [4, 4]);
    const head = along(path, end > start ? Math.min(1, (moment.at - start) / (end - start)) : 1);
    if (many > CROWD) brush.box(...head, 4, colour);
    else if (outcome === 1) brush.shape("won", head, colour, brush.page);
    else if (outcome === 2 && over) brush.cross(head, 6, colour);
    else brush.disk(head, 4.5, colour);
  }

  /** Points on the canvas from a user or node to a node, by way of the links that updates take. */
  path(user, source, target) {
    const { film, nobody, nodes } = this;
    const end = target < nobody ? nodes[target] : this.users[user];
    if (source < nobody) return [nodes[source], end];
    const points = [this.users[user]];
    let node = film.tower[user];
    while (node < nobody && node !== target && points.length <= nobody) {
      points.push(nodes[node]);
      node = film.onward[node];
    }
    return node === target ? [...points, end] : [points[0], end];
  }

  drawUsers(moment, learner) {
    const { film } = this;
    const shares = moment.shares(learner, this.most);
    const winners = moment.winners;
    if (learner >= 0) shares.forEach((share, user) => (shares[user] = 1 - Math.sqrt(1 - share))); // finer near 100 %
    for (let user = 0; user < film.users; user++) this.drawUser(user, shares[user], moment.down[user]);
    if (film.users <= NUMBERED) this.users.forEach((_, user) => this.badge(user, winners.has(user)));
    else winners.forEach((user) => this.crown(user));
  }

  drawUser(user, share, down) {
    const { brush, radius } = this;
    const place = this.users[user];
    const colour = Number.isNaN(share) ? brush.soft : RAMP[Math.round(63 * Math.min(1, share))];
    if (radius < 3) brush.box(...place, down ? radius : 2 * radius, down ? brush.down : colour);
    else brush.disk(place, radius, down ? brush.page : colour, down ? brush.down : brush.text, down ? 1.4 : 0.7);
    if (radius >= 3 && down) brush.cross(place, 0.6 * radius, brush.down);
  }

  /** What a user wears where there are few: its number, a ring if it holds a rare class, one if it was delivered last. */
  badge(user, won) {
    const { film, brush, radius } = this;
    if (film.rare[user]) brush.ring(this.users[user], radius + 2.5, brush.rare, 2);
    if (won) this.crown(user);
    const centre = this.texts.users[user];
    if (centre) brush.label(String(user), centre, won ? brush.text : brush.soft, won);
  }

  /** The ring of those who were delivered last. */
  crown(user) {
    const small = this.radius < 3;
    this.brush.ring(this.users[user], this.radius + (small ? 2.5 : 6), this.brush.delivered, small ? 1.5 : 3.5);
  }

  drawNodes(moment, waiting) {
    const { film, brush } = this;
    this.nodes.forEach((place, node) => {
      const broken = moment.down[film.users + node];
      brush.shape(film.roles[node], place, broken ? brush.page : brush.text, broken ? brush.down : brush.page);
      if (broken) brush.cross(place, 12, brush.down);
      const colour = broken ? brush.down : brush.text;
      const centre = this.texts.nodes[node];
      if (centre) brush.label(named(film, film.users + node), centre, colour, true);
      this.drawQueue([place[0], place[1] - 18], waiting[node]);
    });
  }

  /** The updates that wait at a node, or are being sent from it: a square each, then their number. */
  drawQueue([x, y], count) {
    const { brush } = this;
    for (let one = 0; one < Math.min(count, 8); one++) brush.box(x + 9 * one, y, 7, brush.blue);
    if (count > 8) brush.label(String(count), [x + 74 + brush.measure(String(count)) / 2, y], brush.text, true);
  }

  /** The user nearest to a point on the canvas; nothing if none is near. */
  userAt(x, y) {
    const far = (user) => Math.hypot(this.users[user][0] - x, this.users[user][1] - y);
    const nearest = this.users.reduce((best, _, user) => (far(user) < far(best) ? user : best), 0);
    return far(nearest) <= Math.max(6, this.radius) ? nearest : undefined;
  }
}

/** The least and the largest of every second number of all *lists*. */
function extent(lists, first) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (let at = first; at < list.length; at += 2) {
      low = Math.min(low, list[at]);
      high = Math.max(high, list[at]);
    }
  }
  return [low, high];
}

/** The point at a share of the length of a line through *points*. */
function along(points, share) {
  const lengths = points.slice(1).map(([x, y], leg) => Math.hypot(x - points[leg][0], y - points[leg][1]));
  let left = share * lengths.reduce((sum, one) => sum + one, 0);
  let leg = 0;
  while (leg < lengths.length - 1 && left > lengths[leg]) left -= lengths[leg++];
  const part = lengths[leg] ? Math.min(1, left / lengths[leg]) : 1;
  return [0, 1].map((axis) => points[leg][axis] + part * (points[leg + 1][axis] - points[leg][axis]));
}
