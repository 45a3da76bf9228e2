"""The radio network: cells, transmit queues, transmissions, the medium and the link budget."""
