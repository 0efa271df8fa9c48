"""Cholesky with a diagonal that is raised only where it must be, and counted."""

import torch

from sigmadmm import linalg


def spd(*shape, seed=0):
    A = torch.randn(*shape, shape[-1] + 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return A @ A.mT


def test_a_definite_matrix_is_factored_as_it_is():
    M = spd(6)
    L, raised = linalg.cholesky(M)
    torch.testing.assert_close(L @ L.mT, M)
    assert not raised


def test_an_indefinite_matrix_is_shifted_and_counted():
    M = torch.diag(torch.tensor([1.0, 1.0, -1e-14], dtype=torch.float64))
    L, raised = linalg.cholesky(M)
    assert raised
    assert torch.isfinite(L).all()
    torch.testing.assert_close(L @ L.mT, M, atol=1e-12, rtol=0)


def test_in_a_batch_only_the_failing_matrices_change():
    M = torch.stack([spd(3), torch.diag(torch.tensor([1.0, 1.0, -1e-14], dtype=torch.float64)), spd(3, seed=1)])
    L, raised = linalg.cholesky(M)
    assert raised.tolist() == [False, True, False]
    for b in (0, 2):
        assert torch.equal(L[b], torch.linalg.cholesky(M[b]))


def test_a_matrix_of_nan_gives_nan_and_no_exception():
    L, raised = linalg.cholesky(torch.full((3, 3), torch.nan, dtype=torch.float64))
    assert torch.isnan(L).all()
    assert not raised


def test_a_matrix_of_nan_in_a_batch_costs_no_further_attempts(monkeypatch):
    """One broken network once made every later iteration of its whole batch try fourteen shifts."""
    original, calls = torch.linalg.cholesky_ex, []
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda M: calls.append(M) or original(M))
    M = torch.stack([spd(3), torch.full((3, 3), torch.nan, dtype=torch.float64)])
    L, raised = linalg.cholesky(M)
    assert len(calls) == 1
    assert raised.tolist() == [False, False]
    assert torch.isfinite(L[0]).all()
    assert torch.isnan(L[1]).all()


def test_zero_matrix_has_no_level_to_shift_by():
    L, raised = linalg.cholesky(torch.zeros(2, 2, dtype=torch.float64))
    assert raised
    assert not torch.isfinite(L).all()


def test_solve():
    M, R = spd(5), torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    X, raised = linalg.solve(M, R)
    torch.testing.assert_close(M @ X, R)
    assert not raised


def test_gram_of_narrow_wide_odd_and_batched_matrices():
    for shape in [(3, 5), (99, 7), (100, 30), (101, 20), (2, 130, 11), (2, 3, 105, 4)]:
        V = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        torch.testing.assert_close(linalg.gram(V), V @ V.mT, rtol=1e-12, atol=1e-12)


def test_subtract_product_in_place_for_every_number_of_dimensions():
    for batch in [(), (3,), (2, 3)]:
        generator = torch.Generator().manual_seed(3)
        out, A, B = (
            torch.randn(*batch, *size, dtype=torch.float64, generator=generator) for size in [(4, 6), (4, 5), (5, 6)]
        )
        expected = out - A @ B
        assert linalg.subtract_product_(out, A, B) is out
        torch.testing.assert_close(out, expected)
