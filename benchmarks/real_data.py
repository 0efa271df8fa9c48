"""The classification data that accuracy is measured on: files that must be the expected ones, splits, preprocessing.

digits and breast cancer come with scikit-learn. The others are read from a folder of files that are not part of this
repository, since their licences differ from its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SHA256 = {
    "jma_intensity_1919_1985.npz": "357f276ca643d2a85ea3222fd01221cc2ad85e48d5cb134e5336219f13f70876",
    "ptb_beats_rebuilt.npz": "6e5a17f30850b9d1e5df25e1dc7ee6a51aaf20ffd97ecaab45e2b6a3ef4943ca",
    "yaleb_32x32_2432.npz": "80bc3e2c4d65977f2f894623a0b1178fcd32bd6001b0b9fb19dca95c79071a45",
}


class DataError(Exception):
    """A file that cannot be used. The message names it and says what to do."""


@dataclass(frozen=True)
class Samples:
    """X (samples, features) in float64 and classes 0, 1, ...; samples of one group stay on one side of a split."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, group: np.ndarray | None = None) -> Samples:
        """By default every sample is a group of its own."""
        return cls(X.astype(np.float64), y.astype(np.int64), np.arange(len(y)) if group is None else group)

    def at(self, rows: np.ndarray) -> Samples:
        return Samples(self.X[rows], self.y[rows], self.group[rows])

    def split(self, share: float, seed: int | list[int]) -> tuple[Samples, Samples]:
        """The rest, and that share of the groups of every class, drawn at random."""
        random = np.random.default_rng(seed)
        groups, first = np.unique(self.group, return_index=True)
        drawn = []
        for label in np.unique(self.y):
            own = random.permutation(groups[self.y[first] == label])
            drawn.append(own[: round(share * len(own))])
        taken = np.isin(self.group, np.concatenate(drawn))
        return self.at(~taken), self.at(taken)

    def at_most(self, count: int | None, seed: int | list[int]) -> Samples:
        """A random choice of so many; None: all."""
        if count is None or len(self.y) <= count:
            return self
        return self.at(np.sort(np.random.default_rng(seed).permutation(len(self.y))[:count]))


@dataclass(frozen=True)
class DataSet:
    """What the methods are judged on.

    label       what it is, honestly, as the tables say it
    read        all samples, from the folder if it has a file
    test_share  of every class, or of every class's groups
    file        its name in the folder of `--data`; None: scikit-learn has it
    standardise whether the features are brought to mean 0 and deviation 1 of the training part
    """

    name: str
    label: str
    hidden: tuple[int, ...]
    read: Callable[[Path], Samples]
    test_share: float
    file: str | None = None
    standardise: bool = False

    def load(self, folder: Path | None) -> Samples:
        return self.read(checked(self.name, self.file, folder) if self.file else Path())

    def parts(self, samples: Samples, seed: int) -> tuple[Samples, Samples]:
        """Training and test part."""
        train, test = samples.split(self.test_share, seed)
        return standardised(train, test) if self.standardise else (train, test)


def checked(name: str, file: str, folder: Path | None) -> Path:
    """The file's path, if it is the one that is expected."""
    if folder is None:
        raise DataError(
            f"{name} is read from {file}, which is not part of this repository; pass the folder that holds it as --data"
        )
    path = folder / file
    if not path.is_file():
        what = f"the folder {folder} has no {file}" if folder.is_dir() else f"there is no folder {folder}"
        raise DataError(f"{what}, from which {name} is read; correct --data, or leave {name} out with --sets")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256[file]:
        raise DataError(
            f"{path} is not the file that {name} was defined on: its sha256 is {found}, expected {SHA256[file]}; "
            f"get it anew, or leave {name} out with --sets"
        )
    return path


def standardised(train: Samples, test: Samples) -> tuple[Samples, Samples]:
    mean, deviation = train.X.mean(0), _without_zeros(train.X.std(0))
    scaled = [Samples((part.X - mean) / deviation, part.y, part.group) for part in (train, test)]
    return scaled[0], scaled[1]


def images_to_unit_size(X: np.ndarray) -> np.ndarray:
    """Every row to mean 0 and deviation 1; a constant one, which Yale B has, to 0."""
    unit: np.ndarray = (X - X.mean(1, keepdims=True)) / _without_zeros(X.std(1, keepdims=True))
    return unit


def _without_zeros(deviation: np.ndarray) -> np.ndarray:
    return np.where(deviation > 0, deviation, 1.0)


def _digits(_: Path) -> Samples:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Samples.of(X / 16, y)


def _breast_cancer(_: Path) -> Samples:
    from sklearn.datasets import load_breast_cancer

    return Samples.of(*load_breast_cancer(return_X_y=True))


def _ptb(path: Path) -> Samples:
    with np.load(path) as file:
        return Samples.of(file["X"], file["y"])


def _ptb_patients(path: Path) -> Samples:
    with np.load(path) as file:
        return Samples.of(file["X"], file["y"], file["patient"])


def _yale_b(path: Path) -> Samples:
    with np.load(path) as file:
        X = file["X"].reshape(len(file["X"]), -1).astype(np.float64)
        return Samples.of(images_to_unit_size(X), file["y"])


def _jma(path: Path) -> Samples:
    """Class 1 is JMA intensity 3 and above."""
    with np.load(path) as file:
        rows = file["subset8173"]
        return Samples.of(file["X"][rows], file["intensity"][rows] >= 3)


# Sizes and preprocessing are the paper's where it says them: PTB 7000 training beats as they come, in [0, 1]; half of
# each subject's 64 images, z-scored one by one; 4000 test earthquake reports of 8173, standardised.
DATA_SETS = {
    data.name: data
    for data in (
        DataSet("digits", "scikit-learn's", (60,), _digits, 0.25),
        DataSet("breast cancer", "scikit-learn's", (20, 20), _breast_cancer, 0.25, standardise=True),
        DataSet(
            "PTB random",
            "PTB beats, rebuilt: 14541 of the published 14552; training and test share patients, as in the paper",
            (128, 128),
            _ptb,
            7541 / 14541,
            "ptb_beats_rebuilt.npz",
        ),
        DataSet(
            "PTB patients",
            "PTB beats, rebuilt: 14541 of the published 14552; no patient in both training and test, nor in what is "
            "held out",
            (128, 128),
            _ptb_patients,
            0.5,
            "ptb_beats_rebuilt.npz",
        ),
        DataSet(
            "Yale B",
            "Extended Yale B, the paper's 38 x 64 images; the resize to 32 x 32 is ours",
            (60,),
            _yale_b,
            0.5,
            "yaleb_32x32_2432.npz",
        ),
        DataSet(
            "JMA",
            "substitute (JMA) for the paper's earthquake intensities: the same kinds of feature, another country and "
            "scale, the paper's class sizes",
            (20, 20),
            _jma,
            4000 / 8173,
            "jma_intensity_1919_1985.npz",
            standardise=True,
        ),
    )
}
