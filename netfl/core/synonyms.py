"""Words of papers and of other programs, with the words for the same in scenarios."""

from __future__ import annotations

from collections.abc import Mapping

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    # sections
    "client": ("users",), "clients": ("users",), "num_clients": ("users",), "n_clients": ("users",),
    "client_num_in_total": ("users",), "devices": ("users",), "num_users": ("users",), "workers": ("users",),
    "num_supernodes": ("users",), "participants": ("users",), "ues": ("users",), "stations": ("users",),
    "num_rounds": ("rounds",), "n_rounds": ("rounds",), "num_server_rounds": ("rounds",),
    "comm_round": ("rounds",), "communication_rounds": ("rounds",), "global_epochs": ("rounds",),
    "iterations": ("rounds", "local_steps"), "sim_time": ("duration",), "simulation_time": ("duration",),
    "stop_time": ("duration",), "time": ("duration",), "warm_up": ("warmup",), "random_seed": ("seed",),
    "rng_seed": ("seed",), "rngrun": ("seed",), "repetitions": ("replicas",), "runs": ("replicas",),
    "trials": ("replicas",), "seeds": ("replicas",), "title": ("name",), "experiment": ("name",),
    "tracking": ("track",), "logger": ("track",), "dataset": ("data",), "datasets": ("data",),
    "split": ("partition",), "partitioner": ("partition",), "partitioning": ("partition",),
    "partition_method": ("partition",), "distribution": ("partition",), "net": ("model", "access"),
    "network": ("access", "model"), "architecture": ("model",), "nn": ("model",),
    "algorithm": ("learners", "aggregation"), "algorithms": ("learners",), "learner": ("learners",),
    "training": ("learners",), "eval": ("evaluate",), "evaluation": ("evaluate",), "test_every": ("every",),
    "frequency_of_the_test": ("every",), "eval_every": ("every",), "dtype": ("precision",),
    "events": ("record",), "save": ("checkpoint", "record"), "logging": ("record",), "grid": ("sweep",),
    "search": ("sweep",),
    "user": ("users",), "users": ("devices", "placement"), "path": ("file",), "filename": ("file",),
    # learners
    "learning_rate": ("lr",), "local_lr": ("lr",), "client_lr": ("lr",), "step_size": ("lr",), "eta": ("lr",),
    "global_lr": ("server_lr",), "server_learning_rate": ("server_lr",), "eta_g": ("server_lr",),
    "epochs": ("local_epochs",), "num_epochs": ("local_epochs",), "n_epochs": ("local_epochs",),
    "client_epochs": ("local_epochs",), "steps": ("local_steps",), "local_iterations": ("local_steps",),
    "batch": ("batch_size",), "batchsize": ("batch_size",), "minibatch": ("batch_size",),
    "mini_batch_size": ("batch_size",), "optimizer": ("aggregation",), "optimiser": ("aggregation",),
    "client_optimizer": ("objective",), "server_optimizer": ("aggregation",),
    "strategy": ("aggregation", "selection"), "aggregator": ("aggregation",), "loss": ("objective",),
    "loss_function": ("objective",), "criterion": ("objective",), "scheduler": ("schedule", "mac"),
    "lr_scheduler": ("schedule",), "lr_schedule": ("schedule",), "decay": ("schedule", "factor"),
    "lr_decay": ("schedule", "factor"), "learning_rate_decay": ("schedule", "factor"), "decay_rate": ("factor",),
    "gamma": ("factor",), "exp": ("exponential",), "exponential_decay": ("exponential",),
    "exponential_lr": ("exponential",), "exponentiallr": ("exponential",),
    "fraction_fit": ("selection",), "client_num_per_round": ("selection",), "sampling": ("selection",),
    "sampler": ("selection",), "client_selection": ("selection",), "participation": ("access", "probability"),
    "personalization": ("device",), "personalisation": ("device",), "personal": ("device",),
    "personalization_layers": ("personal_layers",), "head": ("personal_layers",), "lambda": ("pull",),
    "apfl": ("mixture",),
    "hidden_layers": ("hidden",), "hidden_size": ("hidden",), "proximal_mu": ("mu",), "beta_1": ("beta1",),
    "beta_2": ("beta2",), "num_classes": ("labels", "classes"), "n_samples": ("samples",),
    "num_samples": ("samples",),
    # aggregations, objectives, partitions, models
    "fedavg": ("average",), "fed_avg": ("average",), "federated_averaging": ("average",), "mean": ("average",),
    "fedsgd": ("average",), "sgd": ("average",), "weighted": ("average",), "fedopt": ("fedadam",),
    "adam": ("fedadam",), "adamw": ("fedadam",), "fedyogi": ("fedadam",), "fedadagrad": ("fedadam",),
    "momentum": ("fedavgm",), "qffl": ("qfedavg",), "q_ffl": ("qfedavg",), "fair": ("qfedavg",),
    "async": ("fedasync", "asynchronous"), "buffered": ("fedbuff",), "agnostic": ("afl",),
    "incremental": ("relay",), "fedprox": ("proximal",), "prox": ("proximal",), "cross_entropy": ("erm",),
    "crossentropy": ("erm",), "mse": ("erm",), "nll": ("erm",), "empirical_risk": ("erm",), "term": ("tilted",),
    "non_iid": ("dirichlet", "shards"), "noniid": ("dirichlet", "shards"), "hetero": ("dirichlet",),
    "lda": ("dirichlet",), "latent_dirichlet": ("dirichlet",), "pathological": ("shards",), "homo": ("iid",),
    "uniform_split": ("iid",), "by_label": ("by_class",), "alpha": ("concentration",),
    "dirichlet_alpha": ("concentration",), "shards_per_client": ("per_user",), "shards_per_user": ("per_user",),
    "linear": ("logistic",), "lr_model": ("logistic",), "logistic_regression": ("logistic",),
    "softmax": ("logistic",), "neural_network": ("mlp",), "dense": ("mlp",), "convnet": ("cnn",),
    "lenet": ("cnn",), "resnet": ("resnet8",), "resnet18": ("resnet8",), "rnn": ("lstm",),
    "cifar": ("cifar10",), "emnist": ("femnist",), "fmnist": ("fashion_mnist",), "gaussian": ("blobs",),
    "file": ("table", "arrays"), "csv": ("table",),
    "parquet": ("table",), "numpy": ("arrays",), "npz": ("arrays",), "hf": ("huggingface",),
    "torchvision": ("torch_dataset",),
    # codecs
    "quantization": ("qsgd", "uniform", "codec"), "quantisation": ("qsgd", "uniform", "codec"),
    "quantizer": ("codec",), "compressor": ("codec",), "compression": ("assumed_compression", "codec"),
    "compression_down": ("assumed_compression_down", "codec_down"), "sparsification": ("top_k", "codec"),
    "topk": ("top_k",), "randk": ("rand_k",), "random_k": ("rand_k",), "signsgd": ("sign",), "sign_sgd": ("sign",),
    "fp16": ("float16",), "half": ("float16",), "bf16": ("bfloat16",), "terngrad": ("qsgd",),
    "bits": ("bits_per_parameter",), "levels": ("bits_per_parameter",), "ratio": ("share",), "sparsity": ("share",),
    "density": ("share",),
    # networks
    "wireless": ("network",), "lte": ("mcs",), "5g": ("mcs",), "nr": ("mcs",), "4g": ("mcs",),
    "cellular": ("mcs",), "wifi": ("csma_ca",), "wi_fi": ("csma_ca",), "wlan": ("csma_ca",),
    "802.11": ("csma_ca",), "802.15.4": ("csma_ca",), "zigbee": ("csma_ca",), "thread": ("csma_ca",),
    "lr_wpan": ("csma_ca",), "interferer": ("jammer",), "external_interference": ("jammer",),
    "dcf": ("csma_ca",), "csma": ("csma_ca",), "aloha": ("slotted_aloha", "pure_aloha"),
    "unslotted_aloha": ("pure_aloha",), "lora_wan": ("lorawan",), "tdm": ("tdma",),
    "fdm": ("fdma",), "ofdma": ("fdma",), "frequency_division": ("fdma",), "non_orthogonal": ("noma",),
    "successive_interference_cancellation": ("sic",), "interference_cancellation": ("sic",),
    "pf": ("proportional_fair",), "rr": ("round_robin",), "max_ci": ("max_snr",), "access_point": ("towers",),
    "base_stations": ("towers",), "gateways": ("towers",), "gnbs": ("towers",), "cells": ("towers",),
    "tx_power": ("power",), "txpower": ("power",), "transmit_power": ("power",), "snr": ("threshold",),
    "sinr": ("threshold",), "sir": ("margin",), "threshold": ("margin",), "capture_threshold": ("margin",),
    "bw": ("bandwidth",), "carrier": ("frequency",), "carrier_frequency": ("frequency",), "fc": ("frequency",),
    "freq": ("frequency",), "data_rate": ("rate",), "datarate": ("rate",), "bitrate": ("rate",),
    "throughput": ("rate",), "latency": ("delay",), "propagation_delay": ("delay",), "noise": ("noise_figure",),
    "nf": ("noise_figure",), "tx_gain": ("antenna_gain",), "rx_gain": ("antenna_gain",),
    "phy": ("reception", "radio"), "propagation": ("channel",), "propagation_loss": ("channel",),
    "path_loss": ("channel", "log_distance"), "pathloss": ("channel", "log_distance"),
    "fading": ("channel", "rayleigh"), "channels": ("channel",), "friis": ("free_space",),
    "log_distance_path_loss": ("log_distance",), "dual_slope": ("log_distance", "breakpoints"),
    "dual_slope_path_loss": ("log_distance", "breakpoints"), "two_slope": ("log_distance", "breakpoints"),
    "two_slopes": ("log_distance", "breakpoints"), "multi_slope": ("log_distance", "breakpoints"),
    "three_log_distance": ("log_distance", "breakpoints"), "breakpoint": ("breakpoints", "log_distance"),
    "breakpoint_distance": ("breakpoints", "log_distance"), "shadowing": ("lognormal_shadowing",),
    "okumura": ("okumura_hata",), "hata": ("okumura_hata",), "rice": ("rician",),
    "path_loss_exponent": ("exponent",), "mobility": ("motion",), "handover": ("association",),
    "handoff": ("association",), "cell_selection": ("association",), "user_association": ("association",),
    "rwp": ("random_waypoint",),
    "aircomp": ("interference", "over_the_air"), "air_comp": ("interference", "over_the_air"),
    "ota": ("interference", "over_the_air"), "over_the_air_computation": ("interference", "over_the_air"),
    "analog_aggregation": ("interference", "over_the_air"), "channel_inversion": ("power_control", "inversion"),
    "truncated_channel_inversion": ("truncated_inversion",), "transmit_power_control": ("power_control",),
    "tpc": ("power_control",), "open_loop": ("fractional",), "p0": ("reference",), "minstrel": ("rate_adaptation",),
    "rate_control": ("rate_adaptation",), "hidden_terminals": ("senses",), "hidden_nodes": ("senses",),
    "carrier_sense_threshold": ("sense_threshold",), "cca_threshold": ("sense_threshold",),
    "routing_protocol": ("routing",), "queueing": ("queue",), "dijkstra": ("shortest_path",),
    "ospf": ("shortest_path",), "fifo": ("drop_tail",), "droptail": ("drop_tail",), "fq": ("drr",),
    "cbr": ("constant",), "onoff": ("on_off",), "bursts": ("on_off",), "full_buffer": ("saturated",),
    "outage": ("outages",), "failures": ("outages",), "faults": ("outages",),
    "retransmissions": ("max_attempts",), "retries": ("max_attempts",), "max_retries": ("max_attempts",),
    "slot_time": ("slot",), "sf": ("spreading_factor",), "spreading": ("spreading_factor",),
    "max_staleness": ("staleness",), "update_bits": ("update_size",), "model_size": ("update_size",),
    "k": ("data",), "n": ("total",), "parity": ("total",),
    "packet_size": ("mtu", "size"), "interval": ("every",), "every": ("time", "rounds"), "buffer_size": ("capacity",),
}  # fmt: skip
"""Word in lower case, with ``_`` for spaces and dashes → words of scenarios for the same, the likeliest first."""


NOTES: Mapping[str, str] = {
    "optimizer": "users train by SGD (lr, momentum, weight_decay); for one at the server,",
    "optimiser": "users train by SGD (lr, momentum, weight_decay); for one at the server,",
}
"""Words before the remedy for a word that netfl has no key for, where the nearest key alone would mislead."""


def normalised(word: str) -> str:
    """Return *word* as a key of `SYNONYMS`.

    >>> normalised("Non-IID")
    'non_iid'
    """
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def meanings(word: str) -> tuple[str, ...]:
    """Return what *word* may mean in a scenario, the likeliest first: in lower case, or as one of `SYNONYMS`.

    >>> meanings("FedAvg"), meanings("MAC")
    (('fedavg', 'average'), ('mac',))
    """
    key = normalised(word)
    return (key, *SYNONYMS.get(key, ()))
