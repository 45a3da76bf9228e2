"""The core that all packages stand on: specs, families and plug-ins, columns, formats, and words of messages.

What users import by name is beside it: `netfl.errors`, `netfl.files`, `netfl.streams`, `netfl.types` and `netfl.units`.
"""
