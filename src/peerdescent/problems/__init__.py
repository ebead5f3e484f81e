"""Problems: any module with a loss and data, the paper's networks, quadratics, ripples, logistic regression."""

from peerdescent.problems.base import Oracle, Problem
from peerdescent.problems.logistic import LogisticNonconvex, logistic_nonconvex
from peerdescent.problems.mnist_cnn import MnistCNN, convolutional_net
from peerdescent.problems.mnist_nn import MnistNN, SigmoidNet, risk
from peerdescent.problems.quadratic import Quadratic, quadratic
from peerdescent.problems.registry import PROBLEMS, dimension, make, register, size
from peerdescent.problems.ripples import Ripples
from peerdescent.problems.sampled import Sampled
from peerdescent.problems.sizes import Size, size_of
from peerdescent.problems.supervised import Supervised, supervised

__all__ = [
    "PROBLEMS",
    "LogisticNonconvex",
    "MnistCNN",
    "MnistNN",
    "Oracle",
    "Problem",
    "Quadratic",
    "Ripples",
    "Sampled",
    "SigmoidNet",
    "Size",
    "Supervised",
    "convolutional_net",
    "dimension",
    "logistic_nonconvex",
    "make",
    "quadratic",
    "register",
    "risk",
    "size",
    "size_of",
    "supervised",
]
