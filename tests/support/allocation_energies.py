"""Energy of the users that an allocation has decided on."""

import numpy as np


def energies_j(request, decision):
    """Return the energy of the training and the upload of each user, ``[n]``."""
    rate_bps = decision.share * request.bandwidth_hz * np.log2(1.0 + decision.power * request.snr / decision.share)
    sending_j = request.transmit_w * decision.power * request.bits / rate_bps
    return request.train_j * np.square(decision.frequency) + sending_j
