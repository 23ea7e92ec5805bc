"""Finite sets of gate parameters: product grids, Euclidean nets and explicit lists."""

from gatewise.nets.listed import ListNet
from gatewise.nets.masked import MaskedNet
from gatewise.nets.net import MAX_SIZE, Net
from gatewise.nets.product import eta_net, eta_net_size, ProductNet, simplex_lattice

__all__ = ["MAX_SIZE", "ListNet", "MaskedNet", "Net", "ProductNet", "eta_net", "eta_net_size", "simplex_lattice"]
