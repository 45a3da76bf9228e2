"""Every touch of the disk made to fail in turn: the disk is full from there on, or the process dies there."""

import errno
import io
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq


class DiedError(BaseException):
    """The process is gone: nothing catches it, and nothing touches the disk any more."""


class Disk:
    """Counts what is done to the disk below a folder, and lets one of these fail, with all that follow.

    Args:
        folder: what lies elsewhere is left alone.
        point: the number of the act that fails; ``None``: none does.
        dies: whether the process dies there, between two halves of what is written; else there is no space left, and
            only what takes none still goes on.
    """

    def __init__(self, folder, point=None, *, dies=False):
        self.acts = []
        self._folder, self._point, self._dies = str(folder), point, dies
        self._writers = []

    @property
    def failed(self):
        """Whether the point was reached."""
        return self._point is not None and len(self.acts) > self._point

    def act(self, kind, path, *, takes_space=True):
        """Count an act, unless it fails."""
        if not str(path).startswith(self._folder):
            return
        self.acts.append((kind, Path(path).name))
        if self.failed and self._dies:
            raise DiedError
        if self.failed and takes_space:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    @contextmanager
    def watched(self):
        """Everything that touches the disk is an act, within this."""
        olds = [(os, name, getattr(os, name)) for name in ("replace", "unlink", "mkdir", "rmdir", "truncate", "fsync")]
        olds += [(io, "open", io.open), (shutil, "rmtree", shutil.rmtree), (pq, "write_table", pq.write_table)]
        olds += [(pq, "ParquetWriter", pq.ParquetWriter)]
        real = {name: old for _, name, old in olds}

        def simple(name, *, takes_space):
            def call(path, *more, **said):
                self.act(name, path, takes_space=takes_space)
                return real[name](path, *more, **said)

            return call

        def fsync(number):
            self.act("fsync", Path(f"/proc/self/fd/{number}").readlink())
            return real["fsync"](number)

        def opened(path, mode="r", *more, **said):
            if (
                said.get("opener")
                or isinstance(path, int)
                or not str(path).startswith(self._folder)
                or not set(mode) & set("wax+")
            ):
                return real["open"](path, mode, *more, **said)
            self.act("open", path)
            raw = _File(self, path, mode.replace("b", "").replace("t", ""))
            return raw if "b" in mode else io.TextIOWrapper(raw, "utf-8", write_through=True)

        def write_table(table, path, **said):
            self.act("write_table", path)
            return real["write_table"](table, path, **said)

        def writer(path, schema, **said):
            self.act("ParquetWriter", path)
            self._writers.append(real["ParquetWriter"](path, schema, **said))
            return _Writer(self, path, self._writers[-1])

        spaceless = {"replace", "unlink", "rmdir", "truncate"}
        news = {name: simple(name, takes_space=name not in spaceless) for name in (*spaceless, "mkdir", "rmtree")}
        news |= {"fsync": fsync, "open": opened, "write_table": write_table, "ParquetWriter": writer}
        try:
            for module, name, _ in olds:
                setattr(module, name, news[name])
            yield self
        finally:
            for module, name, old in olds:
                setattr(module, name, old)
            for one in self._writers:
                with suppress(Exception):
                    one.close()


class _File(io.FileIO):
    """A file whose every write is an act; one that fails has written half."""

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
    """A Parquet writer whose every write is an act."""

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
