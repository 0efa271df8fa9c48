"""Algorithm 1 walks the path of the authors' demo from the same start (see reference/README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest

import sigmadmm

FILES = sorted((Path(__file__).parent / "reference").glob("*.json"))
EPOCHS = 10


def load(path):
    data = json.loads(path.read_text())
    X, Y = (np.atleast_2d(np.array(data[name])) for name in ("x", "y"))
    initial = []
    for i in range(1, data["hidden_layers"] + 2):
        b = np.atleast_1d(np.array(data[f"b{i}"], dtype=float))
        initial.append((np.array(data[f"W{i}"]).reshape(len(b), -1), b))
    return data, X.T, Y.T, initial


def spectral_mse(network, X, Y):
    return np.linalg.norm(network.predict(X) - Y, 2) ** 2 / len(X)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_ten_epochs_agree_to_1e_6(path):
    data, X, Y, initial = load(path)
    errors, lagrangians = [], []

    def record(run):
        errors.append(spectral_mse(run.network, X, Y))
        thresholds = sum((b**2).sum() for _, b in run.network.weights)
        lagrangians.append(run.history.last["lagrangian"] - 1e-6 / 2 * thresholds)

    sigmadmm.train(
        X,
        Y,
        hidden=[len(b) for _, b in initial[:-1]],
        method="paper",
        curvature="max",
        penalty=1.0,
        regularization=1e-6,
        initial=initial,
        max_iter=EPOCHS,
        callbacks=[record],
    )
    np.testing.assert_allclose(errors[: EPOCHS - 1], data["train_mse"][1:EPOCHS], rtol=1e-6)
    np.testing.assert_allclose(lagrangians, data["augmented_lagrangian"][:EPOCHS], rtol=1e-6)


def test_all_stored_trajectories_are_found():
    assert {path.stem for path in FILES} >= {"product_3x6", "square_2x20_scale8", "square_2x8", "two_outputs_2x10"}
