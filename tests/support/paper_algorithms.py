"""Federated learning as its papers write it, in NumPy, user by user and step by step; it shares no code with netfl.

Models are flat vectors, θ and, last, t.  A rule is an object with `step`, from a version and what was heard to the next
version; it may have a `drift`.  `play` lets one run over a trace: for each round who is heard, and from which version.
"""

from dataclasses import dataclass

import numpy as np

HIDDEN, CLASSES = 5, 3


@dataclass
class Heard:
    """A delivery: user and base version, both models, samples held, steps, step sizes on θ and t, the base's loss."""

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
    """What users do: an objective, its step sizes, and what else is in a step."""

    objective: object
    lr: float
    lr_t: float = 0.0
    momentum: float = 0.0
    decay: float = 0.0
    mu: float = 0.0
    factor: object = lambda version: 1.0

    def rates(self, version):
        """Step sizes on θ and t of who starts from *version*."""
        return self.lr * self.factor(version), self.lr_t * self.factor(version)


def backward(theta, x, y):
    """Each example's cross-entropy, and its gradient, of a network 2-5-3 with tanh: ``[n]`` and ``[n, parameters]``."""
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


# objectives: from losses and t to what each example counts, and the slope of t


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
    """What a user makes of *base* with the mini-batches, pairs of x and y."""
    theta, t, velocity = base[:-1].copy(), base[-1], 0.0
    lr, lr_t = local.rates(version)
    for x, y in batches:
        losses, gradients = backward(theta, x, y)
        weights, slope = local.objective(losses, t)
        gradient = weights @ gradients + local.decay * theta + local.mu * (theta - base[:-1]) + drift[:-1]
        velocity = local.momentum * velocity + gradient
        theta, t = theta - lr * velocity, t - lr_t * (slope + drift[-1])
    return np.append(theta, t), lr, lr_t


def play(rule, local, start, trace, *, data, batches):
    """All versions, ``[rounds + 1, parameters + 1]``.

    Args:
        rule: of the server.
        local: what users do.
        start: version 0.
        trace: pairs of user and base for each round.
        data: x and y of each user.
        batches: the mini-batches of a user from a base, for the how manieth time.
    """
    versions, turns = [start], {}
    for lines in trace:
        heard = []
        for user, since in lines:
            turn = turns[user, since] = turns.get((user, since), -1) + 1
            base, own = versions[since], batches(user, since, turn)
            drift = rule.drift(user, since) if hasattr(rule, "drift") else np.zeros(len(start))
            model, lr, lr_t = trained(base, local, since, own, drift)
            loss = backward(base[:-1], *data[user])[0].mean()
            heard.append(Heard(user, since, base, model, len(data[user][1]), len(own), lr, lr_t, loss))
        versions.append(rule.step(versions[-1], heard))
    return np.array(versions)


# aggregations


class Relay:
    def step(self, x, heard):
        return heard[0].model if heard else x


class Average:
    def __init__(self, by_size=True, eta=1.0):
        self.by_size, self.eta = by_size, eta

    def step(self, x, heard):
        if not heard:
            return x
        mean = np.average([one.model for one in heard], axis=0, weights=[one.samples**self.by_size for one in heard])
        return x + self.eta * (mean - x)


class Weighted:
    """Average over all, with a weight for each user."""

    def __init__(self, weights, eta=1.0):
        self.weights, self.eta = weights, eta

    def step(self, x, heard):
        return x + self.eta / len(self.weights) * sum(self.weights[one.user] * one.change for one in heard)


class Fedau:
    """Wang and Ji, algorithms 1 and 2."""

    def __init__(self, users, cutoff=None, eta=1.0):
        self.weights, self.ended, self.lasting = np.ones(users), [0] * users, [0] * users
        self.cutoff, self.eta = cutoff, eta

    def step(self, x, heard):
        x = Weighted(self.weights.copy(), self.eta).step(x, heard)
        there = {one.user for one in heard}
        for n in range(len(self.weights)):
            self.lasting[n] += 1
            if n in there or self.lasting[n] == self.cutoff:
                m, s = self.ended[n], self.lasting[n]
                self.weights[n] = s if m == 0 else (m * self.weights[n] + s) / (m + 1)
                self.ended[n], self.lasting[n] = m + 1, 0
        return x


class Fedbuff:
    def __init__(self, eta, exponent):
        self.eta, self.exponent, self.made = eta, exponent, 0

    def step(self, x, heard):
        buffer = sum(one.change / (1 + self.made - one.since) ** self.exponent for one in heard)
        self.made += 1
        return x + self.eta * buffer / len(heard) if heard else x


class Fedasync:
    def __init__(self, alpha, a):
        self.alpha, self.a, self.made = alpha, a, 0

    def step(self, x, heard):
        for one in heard:
            weight = self.alpha * (1 + self.made - one.since) ** -self.a
            x = (1 - weight) * x + weight * one.model
        self.made += 1
        return x


class Mifa:
    """Gu et al., algorithm 1: G of those who are not active stays, and is taken with the step size of the round.

    Args:
        users: how many there are.
        rates: η_t on θ and on t, from the number of the version that a round begins with.
        eta: a factor of the server's own.
    """

    rests = False

    def __init__(self, users, rates, eta=1.0):
        self.gradients, self.rates, self.eta, self.made = [0.0] * users, rates, eta, 0

    def step(self, x, heard):
        for one in heard:
            per = np.append(np.full(len(x) - 1, one.lr), one.lr_t or np.inf)
            self.gradients[one.user] = (one.base - one.model) / per
        lr, lr_t = self.rates(self.made)
        self.made += 1
        mean = sum(self.gradients) / len(self.gradients)
        return x - self.eta * np.append(np.full(len(x) - 1, lr), lr_t) * mean


class Fedvarp:
    """Jhunjhunwala et al., algorithm 1."""

    rests = False

    def __init__(self, users, eta=1.0):
        self.y, self.eta = [0.0] * users, eta

    def step(self, x, heard):
        v = sum(self.y) / len(self.y)
        for one in heard:
            v = v + (one.change - self.y[one.user]) / len(heard)
        for one in heard:
            self.y[one.user] = one.change
        return x + self.eta * v


class Qfedavg:
    """Li et al., algorithm 2; the norm is that of θ, and t goes with it."""

    def __init__(self, q):
        self.q = q

    def step(self, x, heard):
        deltas, h = [], []
        for one in heard:
            big_l, f = 1 / one.lr, one.loss + 1e-10
            dw = -big_l * one.change
            deltas.append(f**self.q * dw)
            h.append(self.q * f ** (self.q - 1) * np.sum(dw[:-1] ** 2) + big_l * f**self.q)
        return x - sum(deltas) / sum(h) if heard else x


class Qfedsgd:
    """Li et al., algorithm 1, with gradients of the mean loss over all that users hold."""

    def __init__(self, q, data):
        self.q, self.data = q, data

    def step(self, x, heard):
        if not heard:
            return x
        deltas, h = 0.0, 0.0
        for one in heard:
            losses, gradients = backward(one.base[:-1], *self.data[one.user])
            f, gradient = losses.mean() + 1e-10, np.append(gradients.mean(0), 0.0)
            deltas = deltas + f**self.q * gradient
            h += self.q * f ** (self.q - 1) * (gradient @ gradient) + f**self.q / one.lr
        return x - deltas / h


def nearest_on_simplex(point):
    """``max(point - τ, 0)`` with the τ at which it sums to 1, by bisection."""
    low, high = point.min() - 1, point.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(point - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(point - (low + high) / 2, 0)


class Afl:
    """Mohri et al., figure 3; who is silent adds nothing."""

    def __init__(self, users, lr_lambda):
        self.weights, self.lr_lambda = np.full(users, 1 / users), lr_lambda

    def step(self, x, heard):
        following, rise = x, np.zeros(len(self.weights))
        for one in heard:
            following = following + self.weights[one.user] * one.change
            rise[one.user] += one.loss
        self.weights = nearest_on_simplex(self.weights + self.lr_lambda * rise)
        return following


class Scaffold:
    """Karimireddy et al., algorithm 1, option II."""

    def __init__(self, users, size, eta=1.0):
        self.own, self.eta = [np.zeros(size)] * users, eta
        self.sent = [np.zeros(size)]

    def drift(self, user, since):
        return self.sent[since] - self.own[user]

    def step(self, x, heard):
        before = list(self.own)
        for one in heard:
            per = np.append(np.full(len(x) - 1, one.lr), one.lr_t or np.inf)
            self.own[one.user] = before[one.user] - self.sent[one.since] - one.change / (one.steps * per)
        self.sent.append(np.mean(self.own, axis=0))
        return x + self.eta * np.mean([one.change for one in heard], axis=0) if heard else x


class Fedavgm:
    """Hsu et al.; nothing moves where the inner rule rests."""

    def __init__(self, inner, eta, beta):
        self.inner, self.eta, self.beta, self.v = inner, eta, beta, 0.0
        if hasattr(inner, "drift"):
            self.drift = inner.drift

    def step(self, x, heard):
        change = self.inner.step(x, heard) - x
        if not heard and getattr(self.inner, "rests", True):
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
