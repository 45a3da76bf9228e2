// The buttons, the clock and the list of events.

const LINGER = 0.6; // seconds before the screen for which what is over is still seen
const LINES = 14; // of events
const SLIDER = 1e6; // steps of the slider
const FAILED = ["failed", "collided", "faded", "lost", "given_up", "dropped"];
const SPEEDS = [0.03, 0.1, 0.3, 1, 3, 10, 30, 100];
const WHOLE_S = 60; // that the whole run takes at first
const part = (name) => document.getElementById(`replay-${name}`);

class Player {
  constructor(film) {
    Object.assign(this, { film, moment: new Moment(film), scene: new Scene(part("scene"), film) });
    this.round_s = film.end_s / Math.max(1, film.round_open.length);
    this.clock = clockOf(film, this.round_s);
    this.eventClock = clockOf(film, Math.min(this.round_s, (30 * film.end_s) / Math.max(1, film.event_time.length)));
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.playing = false;
    this.learner = film.coloured.length ? 0 : -1;
    this.offerSpeeds();
    this.offerColours();
    this.listScores();
    part("step").textContent = film.step;
    part("rounds").textContent = `of ${grouped(film.round_open.length)}`;
    part("users").textContent = `of ${grouped(film.users)}`;
    part("rare").hidden = !film.rare.some((one) => one);
    this.listen();
    this.show();
  }

  /**
   * Speeds around one at which the usual way from a user can be followed, and a round lasts from 1.5 s to 20 s; and the
   * one that the replay starts with, at which the whole run takes a minute.
   */
  offerSpeeds() {
    const { film, round_s } = this;
    const rows = [...film.way_end.keys()].filter((row) => film.way_source[row] === film.names.length);
    const lengths = Float64Array.from(rows, (row) => film.way_end[row] - film.way_start[row]).sort();
    const followed = (lengths[lengths.length >> 1] || round_s) / 0.25;
    const base = Math.min(round_s / 1.5, Math.max(round_s / 20, followed));
    this.speed = Number((film.end_s / WHOLE_S).toPrecision(2));
    const rounded = SPEEDS.map((factor) => Number((factor * base).toPrecision(1)));
    const offered = [...new Set([...rounded, this.speed])].sort((one, other) => one - other);
    offered.forEach((speed) => part("speed").add(new Option(`${span(speed)} each second`, speed)));
    part("speed").selectedIndex = offered.indexOf(this.speed);
  }

  offerColours() {
    this.film.coloured.forEach((name, index) => part("hue").add(new Option(`accuracy of ${name}`, index)));
    part("hue").add(new Option("number of deliveries", -1));
    document.querySelector(".replay-ramp").style.background = `linear-gradient(90deg, ${RAMP})`;
    this.writeScale();
  }

  writeScale() {
    part("low").textContent = this.learner < 0 ? "0 deliveries" : "accuracy 0 %";
    part("high").textContent = this.learner < 0 ? `${this.scene.most}` : "100 %, 75 % in the middle";
  }

  listScores() {
    this.bars = this.film.learners.map((name) => {
      const [row, label, value, bar] = ["div", "span", "b", "i"].map((tag) => document.createElement(tag));
      row.className = "score";
      label.textContent = label.title = name;
      row.append(label, value, bar);
      part("scores").append(row);
      return { value, bar };
    });
  }

  listen() {
    part("play").addEventListener("click", () => this.toggle());
    part("cursor").addEventListener("input", (event) => this.seek((event.target.value / SLIDER) * this.film.end_s));
    part("speed").addEventListener("change", (event) => (this.speed = Number(event.target.value)));
    part("hue").addEventListener("change", (event) => {
      this.learner = Number(event.target.value);
      this.writeScale();
      this.show();
    });
    part("scene").addEventListener("pointermove", (event) => this.point(event));
    part("stage").addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.refit()).observe(part("scene"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refit());
    matchMedia("(prefers-reduced-motion: reduce)").addEventListener("change", (event) => (this.calm = event.matches));
  }

  refit() {
    this.scene.fit();
    this.show();
  }

  press(event) {
    const { film, moment } = this;
    const actions = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.seek(event.shiftKey ? before(film.event_time, moment.at) ?? 0 : before(film.round_open, moment.at) ?? 0),
      ArrowRight: () => this.seek(event.shiftKey ? after(film.event_time, moment.at) ?? film.end_s : after(film.round_open, moment.at) ?? film.end_s),
      Home: () => this.seek(0),
      End: () => this.seek(film.end_s),
    };
    if (event.target.tagName === "SELECT" || event.ctrlKey || event.altKey || event.metaKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  toggle() {
    this.playing = !this.playing;
    part("play").textContent = this.playing ? "Pause" : "Play";
    part("play").setAttribute("aria-pressed", this.playing);
    if (!this.playing) return;
    if (this.moment.at >= this.film.end_s) this.seek(0);
    this.since = performance.now();
    requestAnimationFrame((now) => this.tick(now));
  }

  /** One frame; with reduced motion, one each second. */
  tick(now) {
    if (!this.playing) return;
    const passed = (now - this.since) / 1000;
    if (!this.calm || passed >= 1) {
      this.since = now;
      this.seek(this.moment.at + Math.max(0, passed) * this.speed);
    }
    if (this.moment.at >= this.film.end_s) this.toggle();
    else requestAnimationFrame((later) => this.tick(later));
  }

  seek(at) {
    this.moment.seek(at, LINGER * this.speed);
    this.show();
  }

  /** Draw the moment and say what holds. */
  show() {
    const { film, moment } = this;
    this.scene.draw(moment, this.learner, this.calm);
    const [users, others] = moment.downs;
    part("round").textContent = grouped(moment.round);
    part("clock").textContent = this.clock(moment.at);
    part("down").textContent = grouped(users);
    part("broken").textContent = others;
    part("cursor").value = Math.round((SLIDER * moment.at) / film.end_s);
    part("cursor").setAttribute("aria-valuetext", `${film.step} ${moment.round}, ${this.clock(moment.at)}`);
    moment.scores.forEach((share, index) => {
      this.bars[index].value.textContent = percent(share);
      this.bars[index].bar.style.setProperty("--share", share || 0);
    });
    this.listEvents(moment.events);
  }

  /** What is known of the user under the pointer, as the canvas's title. */
  point(event) {
    const user = this.scene.userAt(event.offsetX, event.offsetY);
    const share = user === undefined || this.learner < 0 ? NaN : this.moment.shares(this.learner, 1)[user];
    const accuracy = Number.isNaN(share) ? "" : `, ${percent(share)} accurate`;
    part("scene").title = user === undefined ? "" : `user ${user}: delivered ${this.moment.delivered[user]} ×${accuracy}`;
  }

  /** The latest events, those alike in one line, where they have changed. */
  listEvents(count) {
    if (count === this.listed) return;
    this.listed = count;
    const lines = [];
    for (let last = count - 1; last >= 0 && lines.length < LINES; ) {
      let first = last;
      while (first > 0 && this.alike(first - 1, last)) first--;
      lines.push(this.eventLine(first, last));
      last = first - 1;
    }
    part("events").replaceChildren(...lines);
  }

  alike(one, other) {
    const columns = ["event_time", "event_kind", "event_detail", "event_node"];
    return columns.every((name) => this.film[name][one] === this.film[name][other]);
  }

  /** A line for the events from *first* to *last*. */
  eventLine(first, last) {
    const { film } = this;
    const [line, time, words] = ["li", "time", "span"].map((tag) => document.createElement(tag));
    const kind = film.kinds[film.event_kind[first]];
    line.className = FAILED.includes(kind) ? "failed" : kind;
    Object.assign(line.dataset, { first, last });
    time.textContent = this.eventClock(film.event_time[first]);
    words.textContent = words.title = sentence(film, first) + (last > first ? `, and ${grouped(last - first)} more alike` : "");
    line.append(time, words);
    return line;
  }
}

unpack().then(
  (film) => new Player(film),
  (error) => (part("events").textContent = `This browser cannot unpack the replay: ${error.message}`),
);
