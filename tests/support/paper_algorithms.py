"""Reference implementations of published federated algorithms in NumPy, independent of the code of netfl.

A model is a flat vector: θ, followed by t.  A rule has a method `step`, which maps a version and the delivered updates
to the next version, and optionally a method `drift`.  `play` runs a rule over a trace of (user, base version).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

HIDDEN, CLASSES = 5, 3


@dataclass
class DeliveredUpdate:
    """A delivered update: its user, base version, models, samples, steps, step sizes and the loss of the base."""

    user: int
    since: int
    base: np.ndarray
    model: np.ndarray
    samples: int
    steps: int
    lr: float
    lr_t: float
    loss: float

    @property
    def change(self):
        return self.model - self.base


@dataclass
class Local:
    """Local training: the objective, step sizes and regularisation."""

    objective: object
    lr: float
    lr_t: float = 0.0
    momentum: float = 0.0
    decay: float = 0.0
    mu: float = 0.0
    factor: object = lambda version: 1.0

    def rates(self, version):
        """Return the step sizes on θ and t of an update that starts from *version*."""
        return self.lr * self.factor(version), self.lr_t * self.factor(version)


def backward(theta, x, y):
    """Return the cross-entropies, ``[n]``, and their gradients, ``[n, parameters]``, of a 2-5-3 network with tanh."""
    cut = np.cumsum([HIDDEN * x.shape[1], HIDDEN, CLASSES * HIDDEN])
    w1, b1, w2, b2 = np.split(theta, cut)
    w1, w2 = w1.reshape(HIDDEN, -1), w2.reshape(CLASSES, HIDDEN)
    h = np.tanh(x @ w1.T + b1)
    z = h @ w2.T + b2
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    by_z = np.exp(log_p) - np.eye(CLASSES)[y]
    by_h = by_z @ w2 * (1 - h**2)
    parts = [by_h[:, :, None] * x[:, None], by_h, by_z[:, :, None] * h[:, None], by_z]
    return -log_p[np.arange(len(y)), y], np.hstack([part.reshape(len(y), -1) for part in parts])


# objectives: map losses and t to the weight of each example and the derivative by t


def erm(losses, t):
    return np.full(len(losses), 1 / len(losses)), 0.0


def cvar(alpha, gamma):
    def batch(losses, t):
        over = float(losses.mean() > t)
        weight = (1 - gamma) / alpha * over + gamma
        return np.full(len(losses), weight / len(losses)), (1 - gamma) * (1 - over / alpha)

    return batch


def sample_cvar(alpha, gamma):
    def batch(losses, t):
        over = losses > t
        return ((1 - gamma) / alpha * over + gamma) / len(losses), (1 - gamma) * (1 - over.mean() / alpha)

    return batch


def tilted(tau):
    def batch(losses, t):
        return np.exp(tau * losses) / np.exp(tau * losses).sum(), 0.0

    return batch


def trained(base, local, version, batches, drift):
    """Train from *base* on mini-batches of (x, y); return the model and both step sizes."""
    theta, t, velocity = base[:-1].copy(), base[-1], 0.0
    lr, lr_t = local.rates(version)
    for x, y in batches:
        losses, gradients = backward(theta, x, y)
        weights, slope = local.objective(losses, t)
        gradient = weights @ gradients + local.decay * theta + local.mu * (theta - base[:-1]) + drift[:-1]
        velocity = local.momentum * velocity + gradient
        theta, t = theta - lr * velocity, t - lr_t * (slope + drift[-1])
    return np.append(theta, t), lr, lr_t


def unchanged(values, *_):
    """Return the numbers of an update or of a version that travels whole."""
    return values


def play(rule, local, start, trace, *, data, batches, code=unchanged, send=unchanged):
    """Return all versions, ``[rounds + 1, parameters + 1]``.

    Args:
        rule: the aggregation rule.
        local: the local training.
        start: version 0.
        trace: pairs of user and base version for each round.
        data: x and y of each user.
        batches: returns the mini-batches of a user, given its base version and the number of earlier repetitions.
        code: returns what the server reads of a change of θ, given its user, base version and repetitions.
        send: returns what users read of θ in a version, given its number.
    """
    versions, repeats, sent = [start], {}, []
    for number, round_ in enumerate(trace):
        newest = versions[-1]
        sent.append(np.append(send(newest[:-1], number), newest[-1]))
        updates = []
        for user, since in round_:
            repeat = repeats[user, since] = repeats.get((user, since), -1) + 1
            base, mini_batches = sent[since], batches(user, since, repeat)
            drift = rule.drift(user, since) if hasattr(rule, "drift") else np.zeros(len(start))
            model, lr, lr_t = trained(base, local, since, mini_batches, drift)
            read = base[:-1] + code(model[:-1] - base[:-1], user, since, repeat)
            model = np.append(read, model[-1])
            loss = backward(base[:-1], *data[user])[0].mean()
            updates.append(
                DeliveredUpdate(user, since, base, model, len(data[user][1]), len(mini_batches), lr, lr_t, loss)
            )
        versions.append(rule.step(versions[-1], updates))
    return np.array(versions)


# aggregations


class Relay:
    def step(self, x, updates):
        return updates[0].model if updates else x


class Average:
    def __init__(self, by_size=True, eta=1.0):
        self.by_size, self.eta = by_size, eta

    def step(self, x, updates):
        if not updates:
            return x
        mean = np.average(
            [update.model for update in updates], axis=0, weights=[update.samples**self.by_size for update in updates]
        )
        return x + self.eta * (mean - x)


class Weighted:
    """Average over all users, with a weight for each."""

    def __init__(self, weights, eta=1.0):
        self.weights, self.eta = weights, eta

    def step(self, x, updates):
        return x + self.eta / len(self.weights) * sum(self.weights[update.user] * update.change for update in updates)


class Fedau:
    """Wang and Ji, algorithms 1 and 2."""

    def __init__(self, users, cutoff=None, eta=1.0):
        self.weights, self.ended, self.waiting = np.ones(users), [0] * users, [0] * users
        self.cutoff, self.eta = cutoff, eta

    def step(self, x, updates):
        x = Weighted(self.weights.copy(), self.eta).step(x, updates)
        delivered = {update.user for update in updates}
        for n in range(len(self.weights)):
            self.waiting[n] += 1
            if n in delivered or self.waiting[n] == self.cutoff:
                m, s = self.ended[n], self.waiting[n]
                self.weights[n] = s if m == 0 else (m * self.weights[n] + s) / (m + 1)
                self.ended[n], self.waiting[n] = m + 1, 0
        return x


class Fedbuff:
    def __init__(self, eta, exponent):
        self.eta, self.exponent, self.round = eta, exponent, 0

    def step(self, x, updates):
        buffer = sum(update.change / (1 + self.round - update.since) ** self.exponent for update in updates)
        self.round += 1
        return x + self.eta * buffer / len(updates) if updates else x


class Fedasync:
    def __init__(self, alpha, a):
        self.alpha, self.a, self.round = alpha, a, 0

    def step(self, x, updates):
        for update in updates:
            weight = self.alpha * (1 + self.round - update.since) ** -self.a
            x = (1 - weight) * x + weight * update.model
        self.round += 1
        return x


class Mifa:
    """Gu et al., algorithm 1: G of inactive users stays and is applied with the step size of the round.

    Args:
        users: number of users.
        rates: returns η_t on θ and on t, given the version at the start of the round.
        eta: server step size.
    """

    rests = False

    def __init__(self, users, rates, eta=1.0):
        self.gradients, self.rates, self.eta, self.round = [0.0] * users, rates, eta, 0

    def step(self, x, updates):
        for update in updates:
            step_sizes = np.append(np.full(len(x) - 1, update.lr), update.lr_t or np.inf)
            self.gradients[update.user] = (update.base - update.model) / step_sizes
        lr, lr_t = self.rates(self.round)
        self.round += 1
        mean = sum(self.gradients) / len(self.gradients)
        return x - self.eta * np.append(np.full(len(x) - 1, lr), lr_t) * mean


class Fedvarp:
    """Jhunjhunwala et al., algorithm 1."""

    rests = False

    def __init__(self, users, eta=1.0, keeps=False):
        self.y, self.eta, self.keeps = [0.0] * users, eta, keeps

    def step(self, x, updates):
        if self.keeps and not updates:
            return x
        v = sum(self.y) / len(self.y)
        for update in updates:
            v = v + (update.change - self.y[update.user]) / len(updates)
        for update in updates:
            self.y[update.user] = update.change
        return x + self.eta * v


class Fedstale:
    """Rodio and Neglia: β times the memory of all users, and the rest of the changes over p.

    Args:
        alpha: share of each user.
        beta: weight of the memory.
        p: participation probabilities; ``None`` estimates 1/p by the mean interval of FedAU without a cutoff.
        eta: server step size.
        keeps: leave the version in rounds without deliveries, as the authors' program does.
    """

    rests = False

    def __init__(self, alpha, beta, p=None, eta=1.0, keeps=False):
        self.alpha, self.beta, self.p, self.eta, self.keeps = alpha, beta, p, eta, keeps
        self.h = dict.fromkeys(range(len(alpha)), 0.0)
        self.intervals, self.absent = {user: [] for user in self.h}, dict.fromkeys(self.h, 0)

    def inverse(self, user):
        if self.p is not None:
            return 1 / self.p[user]
        return np.mean(self.intervals[user]) if self.intervals[user] else 1.0

    def step(self, x, updates):
        move = self.beta * sum(self.alpha[user] * h for user, h in self.h.items())
        for update in updates:
            user = update.user
            move = move + self.alpha[user] * self.inverse(user) * (update.change - self.beta * self.h[user])
        present = {update.user for update in updates}
        for user in self.h:
            self.absent[user] += 1
            if user in present:
                self.intervals[user].append(self.absent[user])
                self.absent[user] = 0
        for update in updates:
            self.h[update.user] = update.change
        return x if self.keeps and not updates else x + self.eta * move


class F3ast:
    """Ribero et al., algorithm 1: shares over running rates, which the round has updated."""

    def __init__(self, shares, beta, start=None, divisor=1, eta=1.0):
        self.shares, self.beta, self.scale = shares, beta, eta / divisor
        self.rates = list(shares if start is None else start)

    def step(self, x, updates):
        present = [update.user for update in updates]
        for user, rate in enumerate(self.rates):
            self.rates[user] = rate * (1 - self.beta) + (self.beta if user in present else 0.0)
        for update in updates:
            x = x + self.scale * self.shares[update.user] / self.rates[update.user] * update.change
        return x


class Fedlaavg:
    """Yan et al.: users keep their last gradient, and send how it has changed.

    Args:
        users: number of users.
        rates: returns the constant step sizes on θ and on t, given any version.
    """

    rests = False

    def __init__(self, users, rates):
        self.kept, self.mean, self.rates, self.users = [0.0] * users, 0.0, rates(0), users

    def step(self, x, updates):
        lr, lr_t = self.rates
        step_sizes = np.append(np.full(len(x) - 1, lr), lr_t)
        for update in updates:
            gradient = (update.base - update.model) / np.append(step_sizes[:-1], lr_t or np.inf)
            difference = gradient - self.kept[update.user]  # what the device sends
            self.kept[update.user] = gradient
            self.mean = self.mean + difference / self.users
        return x - step_sizes * self.mean


class Qfedavg:
    """Li et al., algorithm 2; the norm is that of θ, and t takes the same step."""

    def __init__(self, q):
        self.q = q

    def step(self, x, updates):
        deltas, h = [], []
        for update in updates:
            big_l, f = 1 / update.lr, update.loss + 1e-10
            dw = -big_l * update.change
            deltas.append(f**self.q * dw)
            h.append(self.q * f ** (self.q - 1) * np.sum(dw[:-1] ** 2) + big_l * f**self.q)
        return x - sum(deltas) / sum(h) if updates else x


class Qfedsgd:
    """Li et al., algorithm 1, with gradients of the mean loss over all examples of a user."""

    def __init__(self, q, data):
        self.q, self.data = q, data

    def step(self, x, updates):
        if not updates:
            return x
        deltas, h = 0.0, 0.0
        for update in updates:
            losses, gradients = backward(update.base[:-1], *self.data[update.user])
            f, gradient = losses.mean() + 1e-10, np.append(gradients.mean(0), 0.0)
            deltas = deltas + f**self.q * gradient
            h += self.q * f ** (self.q - 1) * (gradient @ gradient) + f**self.q / update.lr
        return x - deltas / h


def nearest_on_simplex(point):
    """Return ``max(point - τ, 0)`` with the τ at which it sums to 1, by bisection."""
    low, high = point.min() - 1, point.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(point - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(point - (low + high) / 2, 0)


class Afl:
    """Mohri et al., figure 3; users without a delivery add nothing.

    The sampling options of the code of q-FFL divide by the sum of the weights: λ with option 1, ones with option 2.
    """

    def __init__(self, users, lr_lambda, option=None):
        self.weights, self.lr_lambda, self.option = np.full(users, 1 / users), lr_lambda, option

    def step(self, x, updates):
        weights = [self.weights[update.user] for update in updates]
        if self.option == 2 or (self.option == 1 and not any(weights)):
            weights = [1.0] * len(updates)
        if self.option is not None:
            weights = [weight / sum(weights) for weight in weights]
        following, rise = x, np.zeros(len(self.weights))
        for update, weight in zip(updates, weights, strict=True):
            following = following + weight * update.change
            rise[update.user] += update.loss
        self.weights = nearest_on_simplex(self.weights + self.lr_lambda * rise)
        return following


class Superquantile:
    """Laguel et al., with the quantile of the authors' program: every loss counts once for each example of its user."""

    def __init__(self, nonconformity_level):
        self.level = nonconformity_level

    def step(self, x, updates):
        if not updates:
            return x
        losses = np.sort(np.concatenate([[update.loss] * update.samples for update in updates]))
        threshold = losses[0]
        if self.level:
            threshold = losses[int(np.ceil(len(losses) * self.level)) - 1]
        chosen = [update for update in updates if update.loss >= threshold]
        weights = [update.samples for update in chosen]
        return np.average([update.model for update in chosen], axis=0, weights=weights)


class Climb:
    """Shen et al., as in the authors' program, with the last loss of each user from before the primal rounds."""

    def __init__(self, users, eta, lr_lambda, epsilon, primal_rounds):
        self.lambdas, self.reports, self.round = np.zeros(users), [], 0
        self.eta, self.lr_lambda, self.epsilon, self.primal_rounds = eta, lr_lambda, epsilon, primal_rounds

    def step(self, x, updates):
        a = 1 + self.lambdas - self.lambdas.mean()
        for update in updates:
            x = x + self.eta / len(updates) * a[update.user] * update.change
            self.reports.append((update.user, update.since, update.loss))
        self.round += 1
        if self.round % self.primal_rounds == 0:
            start = self.round - self.primal_rounds
            known = {user: loss for user, since, loss in self.reports if since <= start}
            mean = sum(known.values()) / max(len(known), 1)
            for user, loss in known.items():
                rise = self.lr_lambda * (loss - mean - self.epsilon) / len(self.lambdas)
                self.lambdas[user] = min(max(self.lambdas[user] + rise, 0), 100)
        return x


class CaFed:
    """Rodio et al., as in the authors' program: allocations q, weights w = π q / Σ π q, and transitions counted apart.

    Args:
        users: number of users.
        eta: server step size.
        b: weight of the bias.
        tolerance: smallest fall of the error.
        s: weight of former losses.
        optimum: F* of each user.
        known: π and λ of each user; `None` without.
        prior: rounds for which they count; `None` if they are exact.
    """

    def __init__(self, users, eta, b=1.0, tolerance=0.0, s=0.0, optimum=0.0, known=None, prior=None):
        self.alpha, self.losses, self.optimum = np.full(users, 1 / users), None, np.zeros(users) + optimum
        self.eta, self.b, self.tolerance, self.s, self.known, self.prior = eta, b, tolerance, s, known, prior
        self.round, self.days, self.on_on, self.off_off, self.before = 0, [0] * users, [0] * users, [0] * users, set()
        self.left_out = []

    def estimates(self, active):
        """Return π and λ; λ as fractions, so that equal ones are equal."""
        self.round += 1
        for k in range(len(self.alpha)):
            self.days[k] += k in active
            self.on_on[k] += k in active and k in self.before
            self.off_off[k] += k not in active and k not in self.before
        self.before = active
        if self.known is not None and self.prior is None:
            return self.known
        pi, lam = (np.zeros(len(self.alpha)), [0] * len(self.alpha)) if self.known is None else self.known
        n = self.prior or 0
        total = self.round + n
        found_pi = [(days + n * p) / total for days, p in zip(self.days, pi, strict=True)]
        found_lam = []
        for k, value in enumerate(lam):
            p, c = Fraction(float(pi[k])), Fraction(value)
            on, off = self.on_on[k] + n * (p + c - c * p), self.off_off[k] + n * (1 - p + c * p)
            found_lam.append(Fraction(on) / total + Fraction(off) / total - 1)
        return np.array(found_pi), found_lam

    def error(self, pi, q):
        w = pi * q / (pi * q).sum()
        gaps = self.losses - self.optimum
        return w @ gaps + self.b * gaps.max() * (0.5 * np.abs(self.alpha - w).sum()) ** 2

    def truncated(self, pi, q, order):
        running = self.error(pi, q)
        for k in order:
            trial = q.copy()
            trial[k] = 0
            if trial.sum() == 0:
                break
            error = self.error(pi, trial)
            if running - error >= self.tolerance:
                q, running = trial, error
        return q

    def step(self, x, updates):
        reported = {update.user: update.loss for update in updates}
        pi, lam = self.estimates({*reported})
        if not updates:
            return x
        if self.losses is None:
            self.losses = np.full(len(self.alpha), np.mean([*reported.values()]))
            for user, loss in reported.items():
                self.losses[user] = loss
        else:
            for user, loss in reported.items():
                self.losses[user] = self.s * self.losses[user] + (1 - self.s) * loss
        divisors = np.where(pi > 0, pi, 1e-9)  # users that were never there: w does not depend on it
        q = self.alpha / divisors
        users = range(len(q))
        q = self.truncated(divisors, q, sorted(users, key=lambda k: abs(lam[k]), reverse=True))
        q = self.truncated(divisors, q, sorted(users, key=lambda k: pi[k]))
        self.left_out.append(int((q == 0).sum()))
        return x + self.eta * sum(q[update.user] * update.change for update in updates)


class Scaffold:
    """Karimireddy et al., algorithm 1, option II."""

    def __init__(self, users, size, eta=1.0):
        self.variates, self.eta = [np.zeros(size)] * users, eta
        self.sent = [np.zeros(size)]

    def drift(self, user, since):
        return self.sent[since] - self.variates[user]

    def step(self, x, updates):
        before = list(self.variates)
        for update in updates:
            step_sizes = np.append(np.full(len(x) - 1, update.lr), update.lr_t or np.inf)
            self.variates[update.user] = (
                before[update.user] - self.sent[update.since] - update.change / (update.steps * step_sizes)
            )
        self.sent.append(np.mean(self.variates, axis=0))
        return x + self.eta * np.mean([update.change for update in updates], axis=0) if updates else x


class Fedavgm:
    """Hsu et al.; the version does not change if the inner rule rests."""

    def __init__(self, inner, eta, beta):
        self.inner, self.eta, self.beta, self.v = inner, eta, beta, 0.0
        if hasattr(inner, "drift"):
            self.drift = inner.drift

    def step(self, x, updates):
        change = self.inner.step(x, updates) - x
        if not updates and getattr(self.inner, "rests", True):
            return x
        return x + self.move(change)

    def move(self, change):
        self.v = self.beta * self.v + change
        return self.eta * self.v


class Fedadam(Fedavgm):
    """Reddi et al., algorithm 2."""

    def __init__(self, inner, eta, beta1, beta2, tau):
        Fedavgm.__init__(self, inner, eta, beta1)
        self.beta2, self.tau, self.square = beta2, tau, tau**2

    def move(self, change):
        self.v = self.beta * self.v + (1 - self.beta) * change
        self.square = self.beta2 * self.square + (1 - self.beta2) * change**2
        return self.eta * self.v / (np.sqrt(self.square) + self.tau)
