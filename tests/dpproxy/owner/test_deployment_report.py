"""What the public is told of a deployment: the registry's fields, true figures, and nothing that is secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.dpproxy.serving import POLICY, make, within

FIELDS = {
    "basic": "name data_curators intended_use data_product_type data_product_region data_product_sector description "
    "publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details data_source_type "
    "access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources registry_authors",
}
"""Of a record of the registry."""
SAID = """
[report]
name = "Visits of a clinic"
curator = "Example | Ltd"
curator_type = "Nonprofit"
publication_date = 2026-01-01
authors = ["Ann", "Bob"]
"""


def told(file: Path, *, warned: str = "") -> dict[str, Any]:
    status, said, errors = within("report", "-c", str(file), "--json")
    assert (status, errors) == (0, warned)
    made: dict[str, Any] = json.loads(said)
    return made


def figures(bounds: list[dict[str, str]]) -> Iterator[tuple[float, float]]:
    for bound in bounds:
        yield float(bound["epsilon"]), float(bound["delta"])


def test_the_fields_are_the_registrys(tmp_path: Path) -> None:
    made = told(make(tmp_path, POLICY + SAID))
    deployment = made["entry"]["deployment"]
    assert {name: set(section) for name, section in deployment.items()} == {
        name: set(keys.split()) for name, keys in FIELDS.items()
    }
    assert deployment["basic"]["publication_date"] == "2026-01-01"
    assert made["missing"] == ["intended_use", "region", "sector", "justification", "sources"]
    status, page, _ = within("report", "-c", str(tmp_path / "dpproxy.toml"))
    assert status == 0
    assert page.startswith("# Visits of a clinic\n")
    assert "- **Data curators**: Example | Ltd Nonprofit\n" in page
    assert "- **Registry authors**: Ann, Bob\n" in page


def test_the_figures_are_those_of_check(tmp_path: Path) -> None:
    dataset = (
        "[budget.dataset]\ninformation = 600\ncalls = 60\n[budget.teams.a]\nmembers = ['ann']\ncalls = 5\n"
    )
    file = make(tmp_path, POLICY + dataset)
    made = told(file)
    status, said, _ = within("check", "-c", str(file), "--json")
    assert status == 0
    best = {one["account"]: one for one in json.loads(said)["guarantees"] if one["smallest"]}
    assert {one["account"] for one in made["accounts"]} == {"any analyst", "team:a", "dataset"} == {*best}
    for one in made["accounts"]:
        period, month, year = figures(one["bounds"])
        known = best[one["account"]]
        assert period == (float(known["epsilon"]), float(known["delta"]))
        assert month == (float(known["kept_epsilon"]), float(known["kept_delta"]))
        assert year > month > period
    parameters = made["entry"]["deployment"]["privacy_loss"]["privacy_parameters"]
    everybody = next(one for one in made["accounts"] if one["account"] == "dataset")
    assert parameters == dict(zip(("epsilon", "delta"), next(figures(everybody["bounds"])), strict=True))
    assert [one["bounds"] for one in made["tables"]] == [everybody["bounds"]] * 2
    assert [(one["table"], one["protects"]) for one in made["tables"]] == [
        ("people", "person_id"),
        ("visits", "person_id"),
    ]
    assert "They may share" in made["entry"]["deployment"]["deployment_model"]["actors"]


def test_nothing_is_claimed_for_what_is_only_tracked(tmp_path: Path) -> None:
    made = told(make(tmp_path, POLICY + "[budget]\nmode = 'track'\n[budget.dataset]\n"))
    loss = made["entry"]["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {}
    assert loss["privacy_parameters_details"].startswith("No guarantee is claimed")
    assert {bound["epsilon"] for one in made["tables"] for bound in one["bounds"]} == {None}


def test_a_budget_that_does_not_refresh_is_for_all_time(tmp_path: Path) -> None:
    made = told(make(tmp_path, POLICY + "[budget]\nperiod = 'none'\n"))
    assert len({*figures(made["accounts"][0]["bounds"])}) == 1


def test_what_is_secret_is_not_in_it(tmp_path: Path) -> None:
    hidden = POLICY.replace(
        "[tables.visits.columns]\n", "[tables.visits.columns]\nroom = { hidden = true }\n"
    )
    hidden = hidden.replace('max_groups_per_unit = { "room" = 2 }\n', 'where = "seconds <> 4711"\n')
    file = make(tmp_path, hidden)
    for more in ((), ("--json",)):
        status, page, _ = within("report", "-c", str(file), *more)
        assert status == 0
        assert "4711" not in page
        assert "room" not in page.replace("rooms", "")
        assert str(tmp_path) not in page
        assert "Ulm" not in page
