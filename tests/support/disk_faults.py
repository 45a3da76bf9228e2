"""Simulated faults of the disk: it is full from a given operation on, or the process dies there."""

import builtins
import errno
import io
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
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


_ALWAYS_WRITES = frozenset(
    {"fsync", "mkdir", "ParquetWriter", "rename", "replace", "rmdir", "truncate", "unlink", "write_table"}
)
_LOOKS = frozenset({"listdir", "lstat", "scandir", "stat"})


class FileErrors:
    """Counts the operations on files below a folder, reading and writing, and lets the system refuse one of them.

    A disk that is full or read-only refuses all operations that write from then on.  Any other error concerns a path,
    and all below it, from then on.

    Args:
        folder: other folders are not affected.
        code: the number of the error, such as ``errno.EACCES``.
        point: the number of the first operation that is refused, or ``None`` for none.
    """

    def __init__(self, folder, code, point=None):
        self.operations = []
        self._folder, self._code, self._point = str(folder), code, point
        self._concerns_writes = code in {errno.ENOSPC, errno.EROFS}
        self._refused_path = None

    @contextmanager
    def watched(self):
        """Count, or refuse, the operations inside this context."""
        originals = []

        def replace(module, name, make):
            original = getattr(module, name)
            originals.append((module, name, original))
            setattr(module, name, make(name, original))

        try:
            for name in sorted(_LOOKS | {"mkdir", "unlink", "rmdir", "truncate", "replace", "rename"}):
                replace(os, name, self._of_first_argument)
            replace(os, "open", self._of_flags)
            replace(os, "fsync", self._of_descriptor)
            for module in (io, builtins):
                replace(module, "open", self._of_mode)
            for module, name in ((pq, "ParquetFile"), (pq, "ParquetWriter"), (pa, "OSFile")):
                replace(module, name, self._of_first_argument)
            replace(pq, "write_table", self._of_second_argument)
            yield self
        finally:
            for module, name, original in reversed(originals):
                setattr(module, name, original)

    def _act(self, name, path, *, writes=False):
        if not isinstance(path, str | bytes | os.PathLike):  # a file that is open
            return
        path = os.path.abspath(os.fspath(path))  # noqa: PTH100 - `Path.absolute` keeps the dots
        writes = writes or name in _ALWAYS_WRITES
        if not path.startswith(self._folder) or (self._concerns_writes and not writes):
            return
        self.operations.append((name, path))
        if self._point is None or len(self.operations) <= self._point:
            return
        if self._refused_path is None:
            self._refused_path = str(Path(path).parent) if self._code == errno.ENOTDIR else path
        is_below = path.startswith(self._refused_path + "/")
        is_concerned = is_below or path == self._refused_path
        if self._code == errno.ENOTDIR:  # the folder is a file, which can be looked at
            is_concerned = is_below or name in {"listdir", "scandir"}
        if self._code == errno.EISDIR and name in {*_LOOKS, "mkdir"}:
            return
        if self._concerns_writes or is_concerned:
            raise OSError(self._code, os.strerror(self._code), path)

    def _of_first_argument(self, name, original):
        def call(path=".", *args, **kwargs):
            self._act(name, path)
            return original(path, *args, **kwargs)

        return call

    def _of_second_argument(self, name, original):
        def call(table, path, **kwargs):
            self._act(name, path)
            return original(table, path, **kwargs)

        return call

    def _of_flags(self, name, original):
        def call(path, flags, *args, **kwargs):
            self._act(name, path, writes=bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)))
            return original(path, flags, *args, **kwargs)

        return call

    def _of_mode(self, name, original):
        def call(path, mode="r", *args, **kwargs):
            self._act(name, path, writes=bool(set(mode) & set("wax+")))
            return original(path, mode, *args, **kwargs)

        return call

    def _of_descriptor(self, name, original):
        def call(descriptor):
            self._act(name, Path(f"/proc/self/fd/{descriptor}").readlink())
            return original(descriptor)

        return call
