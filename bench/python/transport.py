"""The discrete-ordinates equations of bench/sweep in NumPy: same problem, same numbers.

Diamond difference, source iteration, backward Euler in time (the equations stand in
bench/sweep/src/sweep.rs). Vectorised over groups, angles, octants and the cells of a diagonal:
cells with the same i + j + k, counted in the direction of flight, do not wait for each other.
Every octant is seen through a mirror, so that all of them fly towards greater indices and one
diagonal of all eight is one operation. Arrays are (cell, angle, octant and group), cells in the
order of their diagonals.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

# Cells of a diagonal in one operation, at most: what it works on stays in the core's own cache.
PIECE = 32


@dataclass
class Problem:
    """A box of cells of several materials; cross sections and source per material and group."""

    cells: tuple[int, int, int]
    width: np.ndarray
    total: np.ndarray
    scatter: np.ndarray
    """Material, to, from."""
    source: np.ndarray
    filling: np.ndarray
    """Each cell's material; x fastest."""
    inflow: np.ndarray
    per_step: np.ndarray
    """One over speed times time step, per group."""

    @property
    def groups(self) -> int:
        return self.total.shape[1]

    @property
    def volume(self) -> float:
        return float(np.prod(self.width))


def block(cells: tuple[int, int, int], groups: int = 24) -> Problem:
    """A bare block with a source in its middle third, as bench/sweep/src/problem.rs has it."""
    group = np.arange(groups)
    total = 1 + 0.5 * group / groups
    scatter = np.zeros((groups, groups))
    for below, share in ((0, 0.3), (1, 0.15), (2, 0.15)):
        np.add.at(scatter, (np.minimum(group + below, groups - 1), group), share * total)
    inside = [(np.arange(n) >= n // 3) & (np.arange(n) < n - n // 3) for n in cells]
    filling = inside[2][:, None, None] & inside[1][:, None] & inside[0]
    speed = 1 + 9 * (groups - group) / groups
    return Problem(
        cells, 4 / np.array(cells, float), np.stack([total, total]), np.stack([scatter, scatter]),
        np.stack([np.zeros(groups), 1 / (1 + group)]), filling.ravel().astype(np.intp),
        np.zeros(groups), 1 / (speed * 0.5),
    )  # fmt: skip


def angles(polar: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines (axis, angle) and weights of one octant; with mirrors the weights sum to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(polar)
    turns = 2 * polar
    azimuth = 2 * np.pi * (np.arange(turns // 4) + 0.5) / turns
    z, turn = np.repeat(nodes[nodes > 0], turns // 4), np.tile(azimuth, polar // 2)
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z]), np.repeat(weights[nodes > 0], turns // 4) / 2 / turns


class Solver:
    """A problem in the course of its solution; the flux itself (cell, group) is the caller's."""

    def __init__(self, problem: Problem, polar: int) -> None:
        self.problem = problem
        cosines, self.weight = angles(polar)
        self.slope = 2 * cosines / problem.width[:, None]
        self.order_cells()
        count, shape = len(self.place), (len(self.weight), 8 * problem.groups)
        removed = (problem.total + problem.per_step)[problem.filling[self.place]].reshape(count, 1, -1)
        self.inverse = 1 / (removed + self.slope.sum(axis=0)[:, None])
        self.old, self.new = np.zeros((count, *shape)), np.empty((count, *shape))
        self.into, self.octants = np.empty((count, 8, problem.groups)), np.empty((count, shape[1]))
        self.emission, self.leakage = np.empty((count, problem.groups)), np.zeros(problem.groups)
        self.faces = [np.empty((int(side.max()) + 1, *shape)) for side in self.sides]
        self.through, self.part = np.empty((3, PIECE, *shape)), np.empty((3, PIECE, *shape))
        # Written out in full, so that the innermost loops are long.
        self.kept = np.broadcast_to(np.tile(problem.per_step, 8), shape).copy()
        self.steep = np.broadcast_to(self.slope[:, None, :, None], (3, 1, *shape)).copy()

    def order_cells(self) -> None:
        """Where each cell of each diagonal lies in the box, and which faces it has."""
        nx, ny, nz = self.problem.cells
        k, j, i = (axis.ravel() for axis in np.indices((nz, ny, nx)))
        order = np.argsort(i + j + k, kind="stable")
        k, j, i = k[order], j[order], i[order]
        ends = np.cumsum(np.bincount(i + j + k)).tolist()
        self.pieces = [
            (at, min(at + PIECE, end)) for start, end in zip([0, *ends], ends) for at in range(start, end, PIECE)
        ]
        self.sides = [k * ny + j, k * nx + i, j * nx + i]
        mirrored = [
            ((nz - 1 - k if z else k) * ny + (ny - 1 - j if y else j)) * nx + (nx - 1 - i if x else i)
            for x, y, z in itertools.product((False, True), repeat=3)
        ]
        self.place = np.stack(mirrored, axis=1)
        self.back = np.argsort(self.place, axis=0) * 8 + np.arange(8)

    def iterate(self, flux: np.ndarray, commits: bool = False) -> None:
        """One sweep with the flux's scattering, which then becomes the sweep's. `commits` ends the
        step in time."""
        self.scatter(flux)
        for face in self.faces:
            face[...] = np.tile(self.problem.inflow, 8)
        for start, stop in self.pieces:
            self.cross(start, stop)
        np.matmul(self.weight, self.new, out=self.octants)
        rows = self.octants.reshape(-1, self.problem.groups)
        np.sum(rows[self.back], axis=1, out=flux)
        if commits:
            self.leave()
            self.old, self.new = self.new, self.old

    def scatter(self, flux: np.ndarray) -> None:
        """Source and scattering, and each octant's view of them."""
        problem = self.problem
        for material, (scatter, source) in enumerate(zip(problem.scatter, problem.source)):
            cells = problem.filling == material
            self.emission[cells] = flux[cells] @ scatter.T + source
        np.take(self.emission, self.place, axis=0, out=self.into, mode="clip")

    def cross(self, start: int, stop: int) -> None:
        """A diagonal, or a piece of it, of all octants, angles and groups."""
        count, middle = stop - start, self.new[start:stop]
        through, part = self.through[:, :count], self.part[:, :count]
        sides = [side[start:stop] for side in self.sides]
        for face, side, into in zip(self.faces, sides, through):
            np.take(face, side, axis=0, out=into, mode="clip")
        np.multiply(self.old[start:stop], self.kept, out=middle)
        middle += self.into[start:stop].reshape(count, 1, -1)
        np.multiply(through, self.steep, out=part)
        for gained in part:
            middle += gained
        middle *= self.inverse[start:stop]
        np.multiply(middle, 2, out=part[0])
        np.subtract(part[0], through, out=through)
        for face, side, out in zip(self.faces, sides, through):
            face[side] = out

    def leave(self) -> None:
        """What leaves through all faces less what comes in, per group."""
        self.leakage[:] = 0
        for face, slope in zip(self.faces, self.slope):
            carried = self.weight * slope / 2 * self.problem.volume
            gone = np.einsum("fag,a->g", face, carried).reshape(8, -1).sum(axis=0)
            self.leakage += gone - len(face) * 8 * carried.sum() * self.problem.inflow
