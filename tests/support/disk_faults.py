"""Simulated faults of the disk: it is full from a given operation on, or the process dies there."""

import errno
import io
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq


class DiedError(BaseException):
    """The simulated death of the process, which no handler catches."""


class Disk:
    """Counts the operations on the disk below a folder and lets one of them, and all that follow, fail.

    Args:
        folder: other folders are not affected.
        point: the number of the operation that fails, or ``None`` for no failure.
        dies: whether the process dies there, in the middle of a write. Otherwise no space is left, and only operations
            that need no space succeed.
    """

    def __init__(self, folder, point=None, *, dies=False):
        self.acts = []
        self._folder, self._point, self._dies = str(folder), point, dies
        self._writers = []

    @property
    def failed(self):
        """Return whether the point was reached."""
        return self._point is not None and len(self.acts) > self._point

    def act(self, kind, path, *, takes_space=True):
        """Count an operation, or let it fail."""
        if not str(path).startswith(self._folder):
            return
        self.acts.append((kind, Path(path).name))
        if self.failed and self._dies:
            raise DiedError
        if self.failed and takes_space:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    @contextmanager
    def watched(self):
        """Count all operations on the disk inside this context."""
        originals = [
            (os, name, getattr(os, name)) for name in ("replace", "unlink", "mkdir", "rmdir", "truncate", "fsync")
        ]
        originals += [(io, "open", io.open), (shutil, "rmtree", shutil.rmtree), (pq, "write_table", pq.write_table)]
        originals += [(pq, "ParquetWriter", pq.ParquetWriter)]
        real = {name: old for _, name, old in originals}

        def simple(name, *, takes_space):
            def call(path, *args, **kwargs):
                self.act(name, path, takes_space=takes_space)
                return real[name](path, *args, **kwargs)

            return call

        def fsync(number):
            self.act("fsync", Path(f"/proc/self/fd/{number}").readlink())
            return real["fsync"](number)

        def opened(path, mode="r", *args, **kwargs):
            if (
                kwargs.get("opener")
                or isinstance(path, int)
                or not str(path).startswith(self._folder)
                or not set(mode) & set("wax+")
            ):
                return real["open"](path, mode, *args, **kwargs)
            self.act("open", path)
            raw = _File(self, path, mode.replace("b", "").replace("t", ""))
            return raw if "b" in mode else io.TextIOWrapper(raw, "utf-8", write_through=True)

        def write_table(table, path, **kwargs):
            self.act("write_table", path)
            return real["write_table"](table, path, **kwargs)

        def writer(path, schema, **kwargs):
            self.act("ParquetWriter", path)
            self._writers.append(real["ParquetWriter"](path, schema, **kwargs))
            return _Writer(self, path, self._writers[-1])

        spaceless = {"replace", "unlink", "rmdir", "truncate"}
        replacements = {
            name: simple(name, takes_space=name not in spaceless) for name in (*spaceless, "mkdir", "rmtree")
        }
        replacements |= {"fsync": fsync, "open": opened, "write_table": write_table, "ParquetWriter": writer}
        try:
            for module, name, _ in originals:
                setattr(module, name, replacements[name])
            yield self
        finally:
            for module, name, old in originals:
                setattr(module, name, old)
            for writer_ in self._writers:
                with suppress(Exception):
                    writer_.close()


class _File(io.FileIO):
    """A file whose writes are counted. A write that fails has written half of its data."""

    def __init__(self, disk, path, mode):
        super().__init__(path, mode)
        self._disk, self._path = disk, path

    def write(self, data):
        before = self._disk.failed
        try:
            self._disk.act("write", self._path)
        except BaseException:
            if not before:
                super().write(memoryview(data).cast("B")[: len(data) // 2])
            raise
        return super().write(data)


class _Writer:
    """A Parquet writer whose writes are counted."""

    def __init__(self, disk, path, real):
        self._disk, self._path, self._real = disk, path, real

    @property
    def is_open(self):
        return self._real.is_open

    def write_table(self, table):
        self._disk.act("write_table", self._path)
        self._real.write_table(table)

    def close(self):
        if self._real.is_open:
            self._disk.act("close", self._path)
        self._real.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
