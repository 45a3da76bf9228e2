"""Closed forms for updates in packets with parity, independent of the code of netfl.

An update has so many blocks, each of k packets of data and n - k of parity.  Each packet is lost with probability p,
independently.  Any k packets of a block give its data; of fewer, only the packets of data among them are known.
"""

from scipy.stats import binom


def whole_share(data, total, blocks, loss):
    """Return the probability that all data of an update are known, in each block that of at most n - k lost packets."""
    return float(binom.cdf(total - data, total, loss)) ** blocks


def delivered_share(data, total, blocks, loss):
    """Return the probability that some of the data of an update are known.

    A block gives nothing if all of its data are lost, and fewer than k of its packets of parity arrive.
    """
    empty = loss**data * float(binom.cdf(data - 1, total - data, 1.0 - loss))
    return 1.0 - empty**blocks


def parts_known(data, total, loss):
    """Return the mean share of the data of an update that are known.

    A packet of data is lost for good if at least n - k of the n - 1 others of its block are lost, too: that is
    p P(Bin(n - 1, p) ≥ n - k).
    """
    return 1.0 - loss * float(binom.sf(total - data - 1, total - 1, loss))


def parts_lost(data, total, blocks, loss):
    """Return the mean share of its data that an update lacks, of updates of which some are known.

    Over all updates, one of which nothing is known lacks everything.
    """
    delivered = delivered_share(data, total, blocks, loss)
    lost = 1.0 - parts_known(data, total, loss)
    return (lost - (1.0 - delivered)) / delivered
