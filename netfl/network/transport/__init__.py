"""Transport of updates: segmentation, retransmission and reassembly."""
