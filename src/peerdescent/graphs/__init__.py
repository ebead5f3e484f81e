"""Communication graphs: topologies, graphs over time, Laplacians, mixing matrices and their spectra.

>>> from peerdescent import graphs
>>> ring = graphs.parse("ring:10")
>>> graphs.spectrum(ring.laplacian("unit"), ring.mixing()).rho.__round__(6)
4.0
"""

from peerdescent.graphs.base_graphs import base_graph
from peerdescent.graphs.budgeted_matchings import matcha
from peerdescent.graphs.directed import DirectedGraph, directed_graph, from_digraph
from peerdescent.graphs.directed_texts import (
    from_directed_edges,
    from_directed_file,
    from_directed_matrix,
    from_directed_rounds,
)
from peerdescent.graphs.directed_topologies import (
    directed_exponential,
    directed_one_peer_exponential,
    directed_ring,
)
from peerdescent.graphs.edge_lists import from_edge_list
from peerdescent.graphs.files import from_file
from peerdescent.graphs.graph import Graph, from_networkx
from peerdescent.graphs.matrices import LAPLACIANS, MIXINGS, laplacian, mixing
from peerdescent.graphs.own_matrices import from_matrix
from peerdescent.graphs.own_sequences import sequence
from peerdescent.graphs.push_weights import push_matrix
from peerdescent.graphs.random_sequences import active_edges, equidyn, matching
from peerdescent.graphs.random_topologies import (
    barabasi_albert,
    erdos_renyi,
    geometric,
    regular,
    watts_strogatz,
)
from peerdescent.graphs.sequence import AnyGraph, GraphSequence, as_static
from peerdescent.graphs.sequence_files import from_rounds, from_sequence_file
from peerdescent.graphs.sequence_topologies import one_peer_exponential
from peerdescent.graphs.spec import TOPOLOGIES, Topology, as_graph, parse, subset
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
    "AnyGraph",
    "DirectedGraph",
    "Graph",
    "GraphSequence",
    "Spectrum",
    "Topology",
    "active_edges",
    "as_graph",
    "as_static",
    "authors10",
    "barabasi_albert",
    "base_graph",
    "complete",
    "directed_exponential",
    "directed_graph",
    "directed_one_peer_exponential",
    "directed_ring",
    "equidyn",
    "erdos_renyi",
    "exponential",
    "from_digraph",
    "from_directed_edges",
    "from_directed_file",
    "from_directed_matrix",
    "from_directed_rounds",
    "from_edge_list",
    "from_file",
    "from_matrix",
    "from_networkx",
    "from_rounds",
    "from_sequence_file",
    "geometric",
    "grid",
    "hypercube",
    "laplacian",
    "matcha",
    "matching",
    "mixing",
    "one_peer_exponential",
    "parse",
    "path",
    "push_matrix",
    "regular",
    "ring",
    "sequence",
    "spectrum",
    "star",
    "subset",
    "torus",
    "watts_strogatz",
]
