"""A hospital whose names need quotes, in two schemas, with tables that lead to the patient over several steps."""

from __future__ import annotations

from rewriter.policy import Column, Hop, Policy, Table

PATIENTS = Table(
    schema="clinic",
    name="Patients",
    columns=(
        Column("id", "uuid", nullable=False),
        Column("Sex", "text", nullable=True, domain=("f", "m")),
        Column("order", "text"),
        Column("riskScore", "double precision"),
        Column("born", "date", nullable=True),
    ),
    public=False,
    backend_name=("clinic", "Patients"),
    privacy_unit="id",
    keys=(frozenset({"id"}),),
)
STAYS = Table(
    schema="clinic",
    name="Stays",
    columns=(
        Column("stayId", "bigint", nullable=False),
        Column("patientId", "uuid"),
        Column("Ward", "text"),
        Column("wardId", "bigint"),
        Column("admitted", "timestamp without time zone"),
        Column("riskScore", "double precision"),
    ),
    public=False,
    backend_name=("clinic", "Stays"),
    privacy_unit="patientId",
    path=(Hop("patientId", ("clinic", "Patients"), "id"),),
    keys=(frozenset({"stayId"}),),
)
INVOICES = Table(
    schema="Billing",
    name="Invoices",
    columns=(
        Column("id", "bigint", nullable=False),
        Column("stayId", "bigint"),
        Column("amountCents", "integer"),
        Column("payer", "text", nullable=False, domain=("fund", "self")),
        Column("Patients_id", "uuid", nullable=False, declared=False, virtual=True),
    ),
    public=False,
    backend_name=("Billing", "Invoices"),
    privacy_unit="Patients_id",
    path=(Hop("stayId", ("clinic", "Stays"), "stayId"), Hop("patientId", ("clinic", "Patients"), "id")),
    keys=(frozenset({"id"}),),
    max_rows_per_unit=50,
    max_rows_per_unit_per_group=20,
)
"""Its unit has a name of ours, since it has an `id` of its own."""
LABS = Table(
    schema="Billing",
    name="Labs",
    columns=(
        Column("labId", "bigint", nullable=False),
        Column("stayId", "bigint"),
        Column("Result", "text"),
        Column("value", "numeric"),
    ),
    public=False,
    backend_name=("Billing", "Labs"),
    privacy_unit="id",
    path=(Hop("stayId", ("clinic", "Stays"), "stayId"), Hop("patientId", ("clinic", "Patients"), "id")),
    keys=(frozenset({"labId"}),),
    max_rows_per_unit=50,
    max_rows_per_unit_per_group=20,
)
"""No column of it names its unit."""
WARDS = Table(
    schema="Billing",
    name="Wards",
    columns=(Column("wardId", "bigint", nullable=False), Column("Name", "text"), Column("Floor", "integer")),
    public=True,
    backend_name=("Billing", "Wards"),
    in_front=True,
    keys=(frozenset({"wardId"}),),
)
HOSPITAL = Policy(
    {(t.schema, t.name): t for t in (PATIENTS, STAYS, INVOICES, LABS, WARDS)}, ("clinic", "Billing")
)

REFUSED = (
    'SELECT * FROM "Patients"',
    'SELECT * FROM clinic."Stays" LIMIT 5',
    'SELECT * FROM "Billing"."Invoices"',
    'SELECT * FROM "Billing"."Labs"',
    'SELECT id, COUNT(*) FROM clinic."Patients" GROUP BY id',
    'SELECT "patientId", COUNT(*) FROM clinic."Stays" GROUP BY 1',
    'SELECT "Patients_id", COUNT(*) FROM "Billing"."Invoices" GROUP BY 1',
    'SELECT "stayId", COUNT(*) FROM clinic."Stays" GROUP BY "stayId"',
    'SELECT id, COUNT(*) FROM "Billing"."Invoices" GROUP BY id',
    'SELECT sex, COUNT(*) FROM clinic."Patients" GROUP BY 1',
    'SELECT p."Sexe" FROM clinic."Patients" p',
    'SELECT COUNT(*) FROM clinic."Stays"',
    'SELECT COUNT(s."Ward") FILTER (WHERE s."Ward" <> \'A\') FROM clinic."Stays" AS s',
    'SELECT COUNT(*) FROM clinic."Patients" CROSS JOIN "Billing"."Wards"',
    'SELECT AVG("riskScore") FROM clinic."Patients"',
    'SELECT AVG(s."riskScore" + p."riskScore") FROM clinic."Patients" p JOIN clinic."Stays" s ON s."patientId" = p.id',
    'SELECT MAX(born) FROM clinic."Patients"',
    'SELECT MIN(admitted) FROM clinic."Stays"',
    'SELECT SUM("amountCents") / 100 FROM "Billing"."Invoices"',
    'SELECT AVG(x) FROM (SELECT SUM("amountCents") AS x FROM "Billing"."Invoices" GROUP BY "Patients_id") t',
    'SELECT MEDIAN("riskScore") FROM clinic."Patients"',
    'SELECT bool_and("riskScore" > 3 OR "Sex" = \'f\') FROM clinic."Patients"',
    'SELECT mode() WITHIN GROUP (ORDER BY "order") FROM clinic."Patients"',
    'SELECT STRING_AGG("Result", \',\') FROM "Billing"."Labs"',
    'SELECT array_agg(DISTINCT "Ward") FROM clinic."Stays"',
    'SELECT COUNT(DISTINCT "Ward", admitted) FROM clinic."Stays"',
    'SELECT DISTINCT ON ("Ward") "Ward" FROM clinic."Stays" ORDER BY "Ward", admitted',
    'SELECT COUNT(*) FROM (SELECT "Patients_id" FROM "Billing"."Invoices" LIMIT 3) t',
    'SELECT COUNT(*) FROM (SELECT "stayId" FROM "Billing"."Labs" LIMIT 3) t',
    'SELECT AVG(n) FROM (SELECT "riskScore" AS n, RANK() OVER (ORDER BY "riskScore") AS r FROM clinic."Patients") t',
    'SELECT COUNT(DISTINCT p.id) FROM clinic."Patients" p JOIN clinic."Stays" s ON p."Sex" = s."Ward"',
    'SELECT COUNT(DISTINCT p.id) FROM clinic."Patients" p LEFT JOIN clinic."Stays" s ON p."Sex" = s."Ward"',
    'SELECT COUNT(DISTINCT i."Patients_id") FROM "Billing"."Invoices" i, clinic."Patients" p WHERE i.payer = p."Sex"',
    'SELECT COUNT(DISTINCT s."patientId") FROM "Billing"."Labs" l JOIN clinic."Stays" s ON l."Result" = s."Ward"',
    'SELECT COUNT(DISTINCT s."patientId") FROM clinic."Stays" s LEFT JOIN "Billing"."Labs" l ON l."Result" = s."Ward"',
    'SELECT COUNT(*) FROM "Billing"."Labs" l JOIN "Billing"."Invoices" i ON l."Result" = i.payer',
    'SELECT COUNT(*) FROM clinic."Patients" p WHERE p."Sex" IN (SELECT "Ward" FROM clinic."Stays")',
    'SELECT COUNT(*) FROM clinic."Patients" WHERE EXISTS (SELECT 1 FROM "Billing"."Invoices" i WHERE i.payer = "Sex")',
    'SELECT COUNT(*) FROM clinic."Patients" WHERE EXISTS (SELECT 1 FROM "Billing"."Labs" l WHERE l."Result" = "Sex")',
    'SELECT w."Name", COUNT(*) FROM "Billing"."Wards" w LEFT JOIN clinic."Stays" s USING ("wardId") GROUP BY 1',
    'SELECT "Sex", COUNT(*) FROM clinic."Patients" GROUP BY ALL',
    'SELECT COUNT() FROM clinic."Patients"',
)
"""Statements that are refused, for a hint each or for none."""
