"""Problems: any module with a loss and data, the paper's networks, networks on other data sets, quadratics, ripples,
logistic regression."""

from peerdescent.problems.base import Oracle, Problem
from peerdescent.problems.logistic import LogisticNonconvex, logistic_nonconvex
from peerdescent.problems.mnist_cnn import MnistCNN, convolutional_net
from peerdescent.problems.mnist_nn import MnistNN, SigmoidNet, risk
from peerdescent.problems.networks import CharacterTransformer, ResNet, next_character_loss, perceptron
from peerdescent.problems.pictures import cifar10_resnet, mlp
from peerdescent.problems.quadratic import Quadratic, quadratic
from peerdescent.problems.registry import PROBLEMS, dataset, dimension, make, register, size
from peerdescent.problems.ripples import Ripples
from peerdescent.problems.sampled import Sampled
from peerdescent.problems.sizes import Size, size_of
from peerdescent.problems.supervised import Supervised, supervised
from peerdescent.problems.texts import char_transformer

__all__ = [
    "PROBLEMS",
    "CharacterTransformer",
    "LogisticNonconvex",
    "MnistCNN",
    "MnistNN",
    "Oracle",
    "Problem",
    "Quadratic",
    "ResNet",
    "Ripples",
    "Sampled",
    "SigmoidNet",
    "Size",
    "Supervised",
    "char_transformer",
    "cifar10_resnet",
    "convolutional_net",
    "dataset",
    "dimension",
    "logistic_nonconvex",
    "make",
    "mlp",
    "next_character_loss",
    "perceptron",
    "quadratic",
    "register",
    "risk",
    "size",
    "size_of",
    "supervised",
]
