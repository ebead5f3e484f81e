"""The paper's settings and printed numbers, as the reproduction reads them."""

import pytest

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.experiments.resolve import make_algorithm
from peerdescent.reproduce.studies import READINGS, STUDIES, heterogeneous_studies, parts, read_study


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", STUDIES)
def test_every_line_is_an_experiment_that_can_be_built(name: str, reading: str) -> None:
    study = read_study(name, reading)
    for part in parts(study, seeds=2):
        algorithm = make_algorithm(part.experiment, part.experiment.algorithms[0])
        assert algorithm.parameters()
        assert graphs.parse(part.experiment.graph).n == (50 if name == "gamma" else 10)


def test_every_line_has_a_folder_of_its_own_that_any_system_can_name() -> None:
    for study in [*(read_study(name, reading) for name in STUDIES for reading in READINGS), *heterogeneous_studies()]:
        folders = [line.folder for line in study.lines]
        assert len(set(folders)) == len(folders)
        assert all(folder.isascii() for folder in folders), folders


def test_printed_accuracies_are_the_papers() -> None:
    nn = {line.label: line.paper for line in read_study("nn").lines if line.paper}
    cnn = {line.label: line.paper for line in read_study("cnn").lines if line.paper}
    assert len(nn) == 12
    assert (nn["DSGPA-F-PB"], nn["DSGPA-T-PB"], nn["DM-SGD"], nn["D²"], nn["D-ASG"]) == (
        92.76,
        92.22,
        93.44,
        90.44,
        90.68,
    )
    assert cnn == {"DSGPA-F-PB": 98.02, "DSGPA-T": 94.75, "DSGPA-F": 93.17, "DM-SGD": 94.29, "D-ASG": 97.80,
                   "D-SGD": 92.96, "C-SGD": 89.91}  # fmt: skip


def test_the_cnn_settings_are_those_of_the_papers_table() -> None:
    line = read_study("cnn").line("DSGPA-F-PB")
    (part,) = [p for p in parts(read_study("cnn"), seeds=1) if p.line == line]
    values = make_algorithm(part.experiment, "dsgpa-f-pb").parameters()
    assert (values["eta"], values["alpha"], values["beta"], values["gamma"]) == (0.5, 0.5, 0.1, 0.5)
    assert part.experiment.laplacian == "matched"
    assert part.experiment.iterations == 3000


def test_a_budget_shortens_every_run_and_some_lines_have_fewer_seeds() -> None:
    study = read_study("cnn")
    made = parts(study, seeds=3, budget=0.1)
    assert {part.experiment.iterations for part in made} == {300}
    once = [part for part in made if part.line.label == "D-SGD, once per epoch"]
    assert [part.seed for part in once] == [0]
    assert [part.seed for part in made if part.line.label == "D-SGD"] == [0, 1, 2]


def test_an_unknown_reading_is_refused() -> None:
    with pytest.raises(InputError, match="expected one of code, text"):
        read_study("nn", "tea leaves")
