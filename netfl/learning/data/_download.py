"""Where real data sets lie, how they are checked, and how they are fetched."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

from netfl.errors import Fault, MachineError, ScenarioError, suggest

# The plays and poems on which `shakespeare` is built, with the SHA-256 of each text.


PLAYS = (
    ("plays/1kinghenryiv.txt", "7590d173c0be7dba0e2322b357ad33e5e65375d7af154c4ad4d7350d86652780"),
    ("plays/1kinghenryvi.txt", "715e55cc52c1150bcc9ae8fb91dd61a0773d76f3750fece25978b9f8783e1d90"),
    ("plays/2kinghenryiv.txt", "4a9f52f2db3ed3f0c150eefb96e25941a4a0b402addfc559581e9025186e42e5"),
    ("plays/2kinghenryvi.txt", "b282843daec114f4d0104330a94a700d217ac31ce3e3fa7aa24c3e296d9992f9"),
    ("plays/3kinghenryvi.txt", "6156dfad1cd8844c645ddcdc1f4db4e02397f84669ca589cfc148123170863fb"),
    ("plays/allswellthatendswell.txt", "3bad3562a52b3439cb63c6f267f3fb50ef44116eafd2429011ee9908d4b832bb"),
    ("plays/antonyandcleopatra.txt", "4cecd44a3320f7d66dc04fb0a50c5250b589ae8a7f8990f8eb98086b19595876"),
    ("plays/asyoulikeit.txt", "eaa3526fe53859f34ecdf255712f9ecf0b2c903451d4755b2edaa2e2599cb0fc"),
    ("plays/comedyoferrors.txt", "d53fcfe394885515efa22e36ac945702a899908afbc1b827ee3459cfdfca0c78"),
    ("plays/coriolanus.txt", "13d7e0259fcd46cdafb125ae0b6cc8b2432fdb4fe59afba55179adea955748b5"),
    ("plays/cymbeline.txt", "b5bb1a49d38e1b62b14d7c35c5d932acf740cc8c7e08fbb76ebb8379bb103b3a"),
    ("plays/hamlet.txt", "1846810b98f3dce4174a488cd19f3e7ceabff2a4b00487089fbcb2891003d847"),
    ("plays/juliuscaesar.txt", "d4b1254e22888a272f4245b6af4aa9b9c61fc24798d30cd0287ff9491f4d8f5f"),
    ("plays/kinghenryv.txt", "62cbcdfd774cdbc30b20032ef5be5ac92d678581612567f0b54d1cdcb7fd59c5"),
    ("plays/kinghenryviii.txt", "63fc4a4ec60c4c72eac474917d0c234b9fe15d19deda213c857d911a386a3c49"),
    ("plays/kingjohn.txt", "251870ca2777912eed076fc30ccb32e88784a124b6ef365855bb31a1ebac34a9"),
    ("plays/kinglear.txt", "674a2725884307c96398440497c889ad8cecccedf5689df85e6b0faabe4e0fe8"),
    ("plays/kingrichardii.txt", "7af43884757911af0b365a9b5544e75c4d6c423c40f6b3b289b5a39756fdb1e5"),
    ("plays/kingrichardiii.txt", "0b5ef70294ed26ffe2c5496e3723650e8bef5ac178c83287ef7735d9c5d2f9d5"),
    ("plays/loverscomplaint.txt", "28a8c404d06234b70f73bd76dbf80f4228ffd62a686fdffbe0085f70c71cf177"),
    ("plays/loveslabourslost.txt", "b7521b8ae6d6cff3cd4c709edfb1d9776a40756a9fc0d86d3676ed9f1621269e"),
    ("plays/macbeth.txt", "339afa674ac54e5038bd610056e87b0ba70f6543b2fbcfea421bfd0fbbc21e7f"),
    ("plays/measureforemeasure.txt", "1449c06143bdf48eaddf989f9136c8dbd36cf3893d75420f854085c8226ca93e"),
    ("plays/merchantofvenice.txt", "54b95ab530e81bfcd03325b6bd7b14d20d1a9d41a38c2d8867c3fa8da1b6292c"),
    ("plays/merrywivesofwindsor.txt", "85dfbea19962e8d21479debc0f0df48c244f05ec99e0cba9d41da0f01739a16c"),
    ("plays/midsummersnightsdream.txt", "684b22072f158a7965e942d7e9b633bf7c6c65b14a7b519631bbf2f826349370"),
    ("plays/muchadoaboutnothing.txt", "fad832e284ccabb6fcb5dc3dd34d2636a07358d6474f10eed8e9ed98050208ee"),
    ("plays/othello.txt", "e1590d00e121e53587157fa952e0da4070b76721599ebcedce3bb698228adbab"),
    ("plays/periclesprinceoftyre.txt", "f03561e0fb339fd38359093bf6a0c63bfa2c3ba1eafe66ef50aacfe91295a739"),
    ("plays/rapeoflucrece.txt", "07a6e27ebc352c5e33b7d68080bc6bf0083595398bb6d83d0d31fa09f9b63974"),
    ("plays/romeoandjuliet.txt", "1cd830b4a8154da63839a2379f15c2e820b8fa5a339a3b751fc554a8e14af327"),
    ("plays/sonnets.txt", "31a96075d5ae835ed208c683afc5329ba490e257d33a9d1db14c00fa7e0456de"),
    ("plays/tamingoftheshrew.txt", "87f9d1f22bb050276d1677012ea09d853aadc542ca84adcd44b82f48b4870438"),
    ("plays/tempest.txt", "1f20301e552d43aaaca298af6f36334319934fac98b24306e6836d849386e6e8"),
    ("plays/timonofathens.txt", "a01c9ebbf5d31936571997a4a13d3a3554ec3b081956b4da0b4a12d7f4d7581e"),
    ("plays/titusandronicus.txt", "5135117e84fa127c7a4b0e376bb5ab97ac99cdad7da51ba463ba40febca44801"),
    ("plays/troilusandcressida.txt", "fdf3a04f0a92ec3c61ea7349d301c4d4eae1805dfa6d6c2d6e477aeabc76e4df"),
    ("plays/twelfthnight.txt", "68a44a35e82462d4f0217d2a40db874a431d666626691a806b63339118831039"),
    ("plays/twogentlemenofverona.txt", "53f40375e388911699a92321eff4585ab391ecb45b0c64c0bca0389b0b767413"),
    ("plays/various.txt", "b7a4796b4286450beddea68a41133c5c2a0dbd00b146bb23b0deb573a0a87ffc"),
    ("plays/venusandadonis.txt", "ed019d11b26de8676dc7760e927975136b9e43cdc84acbe45de030cd327accc0"),
    ("plays/winterstale.txt", "9a1c8f6f73264b2bfb7e1b674cc2c8690da8c3eedffc911f28de7deec449d6cd"),
)
"""Names of the files and their sums."""


# Where published data sets are to be had, which files they are, and what their sums are.


File = tuple[str, str]
"""A file's name below the folder of its set, and the SHA-256 of its content; the MD5, or no sum, where a set that is
downloaded by hand publishes nothing better."""


@dataclass(frozen=True, slots=True)
class Source:
    """A published set.

    Args:
        folder: its folder in the cache.
        url: where its files are to be had: what stands before their names or, if *by_hand*, a page.
        files: its files, in the order in which they are read.
        by_hand: whether a person has to download them.
        instead: files that do as well, if all of them are there.
    """

    folder: str
    url: str
    files: tuple[File, ...]
    by_hand: bool = False
    instead: tuple[File, ...] = ()


def _idx(*sums: str) -> tuple[File, ...]:
    """The four files of a set in MNIST's form."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple((f"{name}-ubyte.gz", sum_) for name, sum_ in zip(names, sums, strict=True))


_TORONTO = "https://www.cs.toronto.edu/~kriz/"

SOURCES = {
    "mnist": Source(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        _idx(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion_mnist": Source(
        "fashion-mnist",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        _idx(
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "cifar10": Source(
        "cifar-10",
        _TORONTO,
        (("cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),),
        instead=(
            ("data_batch_1.bin", "0def081c410489f98b3935c2d405fc7436d23377894a5d6a710ce1fad8082588"),
            ("data_batch_2.bin", "391e29575970440c9827ff440ffa1280ff77ca6eb244d5c1faba4cff7aa00dc5"),
            ("data_batch_3.bin", "121076ec0d3c7be3f1a6e3e94430ab5bb10bdb03bdf439c59ec721c0c800071e"),
            ("data_batch_4.bin", "ff251e0cad6f90227932ee79ff8eab028f9446e0bdebab02033743cff03b5147"),
            ("data_batch_5.bin", "fac1f56413e32aeecd42ad369e7f1955716e6e67e356724576492ef12a21a825"),
            ("test_batch.bin", "3f7010f5855423b8de3f72b1ee0acb6dd69d8d7dbde577bf05bcf82ed272d6c1"),
        ),
    ),
    "cifar100": Source(
        "cifar-100",
        _TORONTO,
        (("cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),),
    ),
    "cinic10": Source(
        "cinic-10",
        "https://doi.org/10.7488/ds/2448",
        (("CINIC-10.tar.gz", "6ee4d0c996905fe93221de577967a372"),),
        by_hand=True,
    ),
    "svhn": Source(
        "svhn",
        "http://ufldl.stanford.edu/housenumbers/",
        (
            ("train_32x32.mat", "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
            ("test_32x32.mat", "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
        ),
        by_hand=True,  # its page has no https
    ),
    "adult": Source(
        "adult",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
        (
            ("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            ("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        ),
    ),
    "shakespeare": Source(
        "shakespeare",
        "https://github.com/martin-gorner/tensorflow-rnn-shakespeare/tree/master/shakespeare",
        PLAYS,
        by_hand=True,
    ),
    "vehicle": Source(
        "vehicle", "https://github.com/litian96/fair_flearn/tree/master/data/vehicle", (("vehicle.mat", ""),), True
    ),
    "sent140": Source(
        "sent140",
        "https://cs.stanford.edu/people/alecmgo/",
        (("trainingandtestdata.zip", "004a3772c8a7ff9bbfeb875880f47f0679d93fc63e5cf9cff72d54a8a6162e57"),),
    ),
}
"""The sets that come as files, by the kind of the data that reads them."""


_PACKED = (".gz", ".xz")
_MOST_BYTES = 4_000_000_000
"""The most that a packed file may come to; the largest of the published ones comes to a fraction of it."""
_MD5_DIGITS = 32
_SAFE = frozenset({"https"})
"""Ways by which files are fetched."""


class DatasetStatus(NamedTuple):
    """A set and whether it is here.

    Args:
        name: what `fetch` calls it.
        state: whether all its files are there.
        folder: where it lies or would lie.
        source: how it is to be had.
    """

    name: str
    state: Literal["here", "not here"]
    folder: Path
    source: str


class FileContent(NamedTuple):
    """A file of a set, read and checked.

    Args:
        path: where it lies.
        data: what it holds, unpacked if it lies packed where the set's own file is not.
    """

    path: Path
    data: bytes


def root() -> Path:
    """The folder of all sets: that of the environment variable ``NETFL_DATA``, or the user's cache folder."""
    given = os.environ.get("NETFL_DATA")
    if given:
        return Path(given)
    import pooch

    return Path(pooch.os_cache("netfl"))


def contents(name: str) -> tuple[FileContent, ...]:
    """The files of a set, each there and checked; one may also lie packed, with ``.gz`` or ``.xz`` after its name.

    Raises:
        ScenarioError: a file is missing.
        MachineError: a file cannot be read, or is not the published one.
    """
    source = SOURCES[name]
    folder = root() / source.folder
    instead = bool(source.instead) and _whole(folder, source.instead) and not _whole(folder, source.files)
    files = source.instead if instead else source.files
    _miss(name, [folder / file for file, _ in files if _found(folder, file) is None])
    return tuple(_content(_found(folder, file) or folder / file, file, sum_) for file, sum_ in files)


def unpacked(data: bytes, suffix: str = ".gz", most: int = _MOST_BYTES) -> bytes:
    """What *data* hold, packed as files with that *suffix* are.

    Raises:
        OSError: they are no such data, or come to more than *most* bytes.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(data)) if suffix == ".gz" else lzma.LZMAFile(io.BytesIO(data)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it comes to more than {most / 1e9:g} GB")
    return found


def listing() -> tuple[DatasetStatus, ...]:
    """Every set that comes as files, and whether it is here; files are checked when they are read."""
    return tuple(_listed(name, source) for name, source in SOURCES.items())


def fetch(name: str) -> Path:
    """Fetch what is missing of a set, check all of it, and give its folder.

    Raises:
        ScenarioError: there is no such set, or it cannot be fetched but has to be downloaded by hand.
        MachineError: a file cannot be fetched or written, or is not the published one; the message says how to get it
            by hand.
    """
    if name not in SOURCES:
        raise ScenarioError([Fault("", "no such set", name, suggest(name, [*SOURCES]))])
    source = SOURCES[name]
    folder = root() / source.folder
    if _listed(name, source).state == "here":
        contents(name)
        return folder
    if source.by_hand:
        _miss(name, [folder / file for file, _ in source.files if _found(folder, file) is None])
    for file, expected in source.files:
        if _found(folder, file) is None:
            _retrieve(source.url + file, expected, folder / file)
    contents(name)
    return folder


def _retrieve(url: str, expected: str, path: Path) -> None:
    """Download a file and check it; what is not the published file is not kept."""
    import pooch

    if urlsplit(url).scheme not in _SAFE:
        raise MachineError(f"{url} is not fetched: only https is; download it by hand to {path}")
    try:
        way = pooch.HTTPDownloader(hooks={"response": _stay_safe})
        pooch.retrieve(url, f"sha256:{expected}", path.name, path.parent, downloader=way)
    except (OSError, ValueError) as error:
        lost = type(error).__name__ in {"ConnectionError", "ConnectTimeout"}  # of requests, which says it in many words
        reason = f"no connection to {urlsplit(url).netloc}" if lost else error
        raise MachineError(f"{url} cannot be fetched: {reason}; download it by hand to {path}") from error


def _stay_safe(response: Any, *_: object, **__: object) -> None:
    """Refuse an answer that leads away from https.

    Raises:
        OSError: it does.
    """
    there = urljoin(response.url, response.headers.get("location", ""))
    if urlsplit(there).scheme not in _SAFE:
        response.close()
        raise OSError(f"it leads away from https, to {there}")


def _miss(name: str, missing: Sequence[Path]) -> None:
    """Say which files are missing, and how to get them; nothing where all are there."""
    if not missing:
        return
    source = SOURCES[name]
    others = f", nor {len(missing) - 1} more of the set {name}" if len(missing) > 1 else ""
    way = f"download it from {source.url} to there" if source.by_hand else f"run `netfl data fetch {name}`"
    remedy = f"{way}, or set NETFL_DATA to the folder that holds {source.folder}/"
    raise ScenarioError([Fault("", f"there is no file {missing[0]}{others}", remedy=remedy)])


def _found(folder: Path, file: str) -> Path | None:
    """Where *file* lies, as it is or packed."""
    paths = (folder / (file + packed) for packed in ("", *_PACKED))
    return next((path for path in paths if path.is_file()), None)


def _whole(folder: Path, files: tuple[File, ...]) -> bool:
    """Whether all *files* are there."""
    return all(_found(folder, file) for file, _ in files)


def _content(path: Path, file: str, expected: str) -> FileContent:
    """What lies at *path* as the set's *file*; it must be the published one."""
    try:
        data = path.read_bytes()
        if path.name != Path(file).name:
            data = unpacked(data, path.suffix)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise MachineError(f"{path} cannot be read, or is cut: {error}; remove it and get it again") from error
    if expected:
        _check(path, data, expected)
    return FileContent(path, data)


def _check(path: Path, data: bytes, expected: str) -> None:
    """Make sure that *data* are those of the published file."""
    kind = "MD5" if len(expected) == _MD5_DIGITS else "SHA-256"
    made = hashlib.md5(data, usedforsecurity=False) if kind == "MD5" else hashlib.sha256(data)
    if made.hexdigest() != expected:
        what = "is not the published file, or is cut"
        told = f"the {kind} of its content is {made.hexdigest()}, expected {expected}"
        raise MachineError(f"{path} {what}: {told}; remove it and fetch it again")


def _listed(name: str, source: Source) -> DatasetStatus:
    """Whether all files of a set are there."""
    folder = root() / source.folder
    whole = _whole(folder, source.files) or (bool(source.instead) and _whole(folder, source.instead))
    return DatasetStatus(
        name, "here" if whole else "not here", folder, source.url if source.by_hand else f"netfl data fetch {name}"
    )
