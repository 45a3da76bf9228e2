// Times, metrics and events in words.

const SENTENCES = {
  broadcast: () => "the server begins to send a version",
  received: ({ who }) => `${who} has the version and trains`,
  trained: ({ who }) => `${who} has finished training`,
  queued: ({ who }) => `${who} waits to send`,
  sent: ({ who, node }) => `${who} sends to ${node}`,
  failed: ({ who, why }) => `an attempt of ${who} failed${why}`,
  forwarded: ({ what, node }) => `${node} forwarded ${what}`,
  down: ({ who }) => `${who} is down`,
  up: ({ who }) => `${who} is up again`,
  sampled: ({ who }) => `a probe sampled the link of ${who}`,
  delivered: ({ who, what, rounds }) => (rounds ? `${who} was delivered` : `${what} arrived`),
  late: ({ what }) => `${what} arrived too late`,
  given_up: ({ what, why }) => `${what} was given up${why}`,
  unfinished: ({ what }) => `${what} was not finished at the end of the run`,
};

/** Event *row* of the film in words. */
function sentence(film, row) {
  const kind = film.kinds[film.event_kind[row]];
  const who = named(film, film.event_who[row] - 1);
  const owner = film.event_who[row] - 1 < film.users && film.event_who[row] ? ` of ${who}` : "";
  const detail = film.details[film.event_detail[row]].replaceAll("_", " ");
  const parts = {
    who,
    rounds: film.step === "round",
    what: film.step === "round" ? `the update${owner}` : `a packet${owner}`,
    node: film.event_node[row] ? named(film, film.users + film.event_node[row] - 1) : "the network",
    why: detail && `: ${detail}`,
  };
  const other = ({ what, why }) => `${what} was ${kind}${why}`;
  return (SENTENCES[kind] ?? other)(parts);
}

/** The name of a user or, after them, a node or a link. */
function named(film, who) {
  const node = who - film.users;
  if (who < 0) return "a user";
  if (node < 0) return `user ${who}`;
  if (node < film.names.length) return film.names[node].replace(":", " ");
  const link = node - film.names.length;
  return `link ${[0, 1].map((end) => film.names[film.links[2 * link + end]].replace(":", " ")).join(" – ")}`;
}

/** Format times as hours, minutes and seconds, with two digits more than stretches of *usual_s* need. */
function clockOf(film, usual_s) {
  const digits = Math.min(9, Math.max(1, Math.ceil(-Math.log10(usual_s)) + 2));
  const two = (number) => String(number).padStart(2, "0");
  return (at_s) => {
    if (film.end_s < 60) return `${at_s.toFixed(digits)} s`;
    const whole = Math.round(at_s * 10 ** digits) / 10 ** digits;
    const minutes = Math.floor(whole / 60);
    const seconds = (whole - 60 * minutes).toFixed(digits).padStart(digits + 3, "0");
    return film.end_s < 3600 ? `${two(minutes)}:${seconds}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${seconds}`;
  };
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [0, "µs"]];

/** A time in the unit in which it is easily read. */
function span(seconds) {
  const [unit, name] = UNITS.find(([size]) => seconds >= size);
  return `${Number((seconds / (unit || 1e-6)).toPrecision(2))} ${name}`;
}

/** An integer with thin spaces between thousands. */
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** A share in percent. */
const percent = (share) => (Number.isNaN(share) ? "–" : `${(100 * share).toFixed(1)} %`);
