"""The record of trainings, and the bases that it still needs."""

import numpy as np

from netfl.network.training_log import TrainingLog


def test_bases_are_those_of_all_trainings_in_the_record():
    rng = np.random.default_rng(3)
    log = TrainingLog()
    kept = {user: [] for user in range(4)}  # bases of each user, in the order of its trainings
    for index in range(60):
        users = [user for user in kept if rng.random() < 0.7]
        log.add(users, [float(index)] * len(users), [index // 2] * len(users))  # two trainings from each base
        for user in users:
            kept[user].append(index // 2)
        user = int(rng.integers(4))
        if kept[user] and rng.random() < 0.3:
            place = int(rng.integers(len(kept[user])))
            base = kept[user][place]
            last = max(number for number, of in enumerate(kept[user]) if of == base)
            assert log.take_before(user, base, float(index)) == tuple(kept[user][:last])
            kept[user] = kept[user][last + 1 :]
        assert log.bases() == {base for bases in kept.values() for base in bases}
