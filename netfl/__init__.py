"""netfl: a discrete-event network simulator coupled to federated learning."""

__version__ = "0.1.0"
