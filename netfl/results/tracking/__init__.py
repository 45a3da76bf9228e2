"""Trackers that receive a run's metrics: TensorBoard and MLflow."""
