"""Communication graphs: topologies, Laplacians, mixing matrices and their spectra.

>>> from peerdescent import graphs
>>> ring = graphs.parse("ring:10")
>>> graphs.spectrum(ring.laplacian("unit"), ring.mixing()).rho.__round__(6)
4.0
"""

from peerdescent.graphs.edge_lists import from_edge_list
from peerdescent.graphs.files import from_file
from peerdescent.graphs.graph import Graph, from_networkx
from peerdescent.graphs.matrices import LAPLACIANS, MIXINGS, laplacian, mixing
from peerdescent.graphs.own_matrices import from_matrix
from peerdescent.graphs.random_topologies import (
    barabasi_albert,
    erdos_renyi,
    geometric,
    regular,
    watts_strogatz,
)
from peerdescent.graphs.spec import TOPOLOGIES, Topology, as_graph, parse
from peerdescent.graphs.spectra import Spectrum, spectrum
from peerdescent.graphs.topologies import (
    authors10,
    complete,
    exponential,
    grid,
    hypercube,
    path,
    ring,
    star,
    torus,
)

__all__ = [
    "LAPLACIANS",
    "MIXINGS",
    "TOPOLOGIES",
    "Graph",
    "Spectrum",
    "Topology",
    "as_graph",
    "authors10",
    "barabasi_albert",
    "complete",
    "erdos_renyi",
    "exponential",
    "from_edge_list",
    "from_file",
    "from_matrix",
    "from_networkx",
    "geometric",
    "grid",
    "hypercube",
    "laplacian",
    "mixing",
    "parse",
    "path",
    "regular",
    "ring",
    "spectrum",
    "star",
    "torus",
    "watts_strogatz",
]
