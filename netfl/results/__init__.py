"""The run directory: writer, reader, tables, manifest, statistics, exports and trackers."""
