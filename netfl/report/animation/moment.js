// The state of the network at any instant.  Forward steps are cheap; a step back starts over from the beginning.

/** Walks along rising times and calls `pass` for every row that it passes. */
class Walk {
  constructor(times, pass, restart) {
    Object.assign(this, { times, pass, restart, next: 0 });
  }

  to(at) {
    const next = upTo(this.times, at);
    if (next < this.next) {
      this.restart();
      this.next = 0;
    }
    while (this.next < next) this.pass(this.next++);
  }
}

/** What holds at the instant `at`, in seconds. */
class Moment {
  constructor(film) {
    this.film = film;
    this.at = 0;
    this.down = new Uint8Array(film.users + film.names.length + film.links.length / 2);
    this.delivered = new Uint32Array(film.users);
    this.ways = new Set();
    this.linger = 0;
    this.walks = [
      new Walk(film.switch_time, (row) => (this.down[film.switch_who[row]] = film.switch_down[row]), () => this.down.fill(0)),
      new Walk(film.delivered_time, (row) => this.delivered[film.delivered_user[row]]++, () => this.delivered.fill(0)),
      new Walk(film.way_start, (row) => this.ways.add(row), () => this.ways.clear()),
    ];
    this.seek(0);
  }

  /** Go to *at*; ways are kept for *linger* seconds after their end. */
  seek(at, linger = 0) {
    if (linger > this.linger) this.walks[2].to(-1);
    this.linger = linger;
    this.at = Math.min(Math.max(at, 0), this.film.end_s);
    for (const walk of this.walks) walk.to(this.at);
    for (const row of this.ways) if (this.film.way_end[row] + linger < this.at) this.ways.delete(row);
  }

  /** The round that is open, from 1 on. */
  get round() {
    return upTo(this.film.round_open, this.at);
  }

  /** How many events have happened. */
  get events() {
    return upTo(this.film.event_time, this.at);
  }

  /** Who is down: how many users, and how many nodes and links. */
  get downs() {
    const { users } = this.film;
    const count = (part) => part.reduce((sum, one) => sum + one, 0);
    return [count(this.down.subarray(0, users)), count(this.down.subarray(users))];
  }

  /** The users delivered in the latest round that has delivered anybody. */
  get winners() {
    const { delivered_time, delivered_user, round_open, step } = this.film;
    const last = upTo(delivered_time, this.at) - 1;
    if (last < 0) return new Set();
    const opened = step === "round" ? before(round_open, delivered_time[last]) : undefined;
    const first = opened === undefined ? last : upTo(delivered_time, opened);
    return new Set(delivered_user.subarray(first, last + 1));
  }

  /** The accuracy of each learner by its latest evaluation; NaN where there is none. */
  get scores() {
    const { learners, score, score_time } = this.film;
    const last = upTo(score_time, this.at) - 1;
    return learners.map((_, index) => (last < 0 ? NaN : score[index * score_time.length + last]));
  }

  /** A share from 0 to 1 for each user, by which it is coloured, NaN if unknown: its accuracy, or how often it was delivered. */
  shares(learner, most) {
    const { users, user_score, user_score_time, coloured } = this.film;
    if (learner < 0) return Float32Array.from(this.delivered, (count) => count / Math.max(most, 1));
    const last = upTo(user_score_time, this.at) - 1;
    const from = (last * coloured.length + learner) * users;
    return Float32Array.from({ length: users }, (_, user) => {
      const halves = last < 0 ? 255 : user_score[from + user];
      return halves === 255 ? NaN : halves / 200;
    });
  }

  /** Where the users are, as x and y in turn. */
  get places() {
    const { frames, user_xy, end_s } = this.film;
    const width = user_xy.length;
    if (!frames.length) return user_xy;
    const last = frames.length / width - 1;
    const step = Math.min((this.at / end_s) * last, last - 1e-9);
    const first = Math.floor(step) * width;
    const share = step - Math.floor(step);
    return user_xy.map((_, i) => frames[first + i] * (1 - share) + frames[first + width + i] * share);
  }
}
