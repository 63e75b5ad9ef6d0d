"""The database of a hospital, as an owner brings it: two schemas, uuid keys, timestamptz, enums, jsonb, arrays, views,
mixed case and soft deletes."""

from __future__ import annotations

PATIENTS = 4000

SCHEMA = (
    "CREATE SCHEMA clinic",
    'CREATE SCHEMA "Billing"',
    "CREATE TYPE clinic.sex AS ENUM ('female', 'male', 'diverse')",
    "CREATE TYPE clinic.ward AS ENUM ('cardiology', 'surgery', 'paediatrics', 'oncology', 'emergency')",
    """CREATE TYPE "Billing"."Payer" AS ENUM ('Public', 'Private', 'Self')""",
    """CREATE TABLE clinic.patients (
        id uuid PRIMARY KEY, mrn varchar(12) NOT NULL UNIQUE, sex clinic.sex NOT NULL, born date NOT NULL,
        postcode varchar(5), "riskScore" double precision, consents jsonb NOT NULL, allergies text[] NOT NULL,
        notes text, created_at timestamptz NOT NULL, deleted_at timestamptz)""",
    """CREATE TABLE clinic.doctors (id uuid PRIMARY KEY, full_name text NOT NULL, specialty text NOT NULL)""",
    """CREATE TABLE clinic.admissions (
        id uuid PRIMARY KEY, patient_id uuid NOT NULL REFERENCES clinic.patients (id), ward clinic.ward NOT NULL,
        attending_doctor_id uuid REFERENCES clinic.doctors (id), emergency boolean NOT NULL,
        admitted_at timestamptz NOT NULL, discharged_at timestamptz, deleted_at timestamptz)""",
    """CREATE TABLE clinic.icd_codes (code varchar(8) PRIMARY KEY, title text NOT NULL, chapter text NOT NULL)""",
    """CREATE TABLE clinic.diagnoses (
        admission_id uuid NOT NULL REFERENCES clinic.admissions (id), position smallint NOT NULL,
        icd_code varchar(8) NOT NULL REFERENCES clinic.icd_codes (code), PRIMARY KEY (admission_id, position))""",
    """CREATE TABLE clinic.concepts (loinc varchar(10) PRIMARY KEY, name text NOT NULL, unit text NOT NULL)""",
    """CREATE TABLE clinic.lab_results (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        admission_id uuid NOT NULL REFERENCES clinic.admissions (id),
        loinc varchar(10) NOT NULL REFERENCES clinic.concepts (loinc), value double precision,
        abnormal boolean NOT NULL, taken_at timestamptz NOT NULL)""",
    """CREATE TABLE clinic.family_links (
        patient_id uuid NOT NULL REFERENCES clinic.patients (id),
        relative_id uuid NOT NULL REFERENCES clinic.patients (id), kind text NOT NULL)""",
    """CREATE TABLE "Billing"."Invoices" (
        "invoiceId" bigint PRIMARY KEY, "admissionId" uuid NOT NULL REFERENCES clinic.admissions (id),
        "amountCents" integer NOT NULL, payer "Billing"."Payer" NOT NULL, "issuedAt" timestamptz NOT NULL)""",
    """CREATE TABLE "Billing"."Payments" (
        "paymentId" bigint PRIMARY KEY, "invoiceId" bigint NOT NULL REFERENCES "Billing"."Invoices" ("invoiceId"),
        "paidCents" integer NOT NULL, "paidAt" timestamptz NOT NULL)""",
    """CREATE VIEW clinic.active_patients AS
        SELECT id, sex, born, postcode, "riskScore", created_at FROM clinic.patients WHERE deleted_at IS NULL""",
    """CREATE VIEW clinic.stays AS
        SELECT a.id, a.patient_id, p.sex, a.ward, a.admitted_at, a.discharged_at,
            (EXTRACT(EPOCH FROM a.discharged_at - a.admitted_at) / 86400)::double precision AS days
        FROM clinic.admissions a JOIN clinic.patients p ON p.id = a.patient_id
        WHERE a.deleted_at IS NULL AND a.discharged_at IS NOT NULL""",
    """CREATE VIEW clinic.monthly AS
        SELECT date_trunc('month', admitted_at) AS month, ward, count(*) AS admissions
        FROM clinic.admissions GROUP BY 1, 2""",
)

ROWS = (
    "SELECT setseed(0.25)",
    f"""INSERT INTO clinic.patients
        SELECT md5('patient ' || i)::uuid, 'M' || lpad(i::text, 8, '0'),
            (ARRAY['female', 'female', 'female', 'male', 'male', 'male', 'male', 'diverse'])[1 + i % 8]::clinic.sex,
            date '1936-01-01' + (random() * 28800)::int, lpad((10115 + i % 7)::text, 5, '0'), 100 * random() ^ 2,
            jsonb_build_object('research', random() > 0.15, 'language', (ARRAY['de', 'de', 'tr', 'en'])[1 + i % 4]),
            CASE WHEN i % 5 = 0 THEN '{{penicillin,latex}}' WHEN i % 5 = 1 THEN '{{nuts}}' ELSE '{{}}' END::text[],
            'came with a cough', timestamptz '2022-01-01 UTC' + random() * interval '300 days',
            CASE WHEN random() < 0.1 THEN timestamptz '2024-06-01 UTC' END
        FROM generate_series(1, {PATIENTS}) AS r(i)""",
    """INSERT INTO clinic.doctors
        SELECT md5('doctor ' || i)::uuid, 'Dr. ' || i,
            (ARRAY['cardiology', 'surgery', 'paediatrics', 'oncology'])[1 + i % 4]
        FROM generate_series(1, 40) AS r(i)""",
    """INSERT INTO clinic.admissions
        SELECT md5('admission ' || id || n)::uuid, id,
            (ARRAY['cardiology', 'surgery', 'paediatrics', 'oncology', 'emergency'])
                [1 + floor(5 * random() ^ 1.3)::int]::clinic.ward,
            CASE WHEN random() < 0.95 THEN md5('doctor ' || 1 + floor(40 * random())::int)::uuid END, random() < 0.3,
            since, CASE WHEN random() < 0.97 THEN since + (0.5 + 9 * random() ^ 2) * interval '1 day' END,
            CASE WHEN random() < 0.02 THEN since END
        FROM (SELECT id, n, timestamptz '2023-01-01 UTC' + random() * interval '730 days' AS since
            FROM clinic.patients, generate_series(1, 4) AS r(n) WHERE n = 1 OR random() < 0.5) AS x""",
    """INSERT INTO clinic.icd_codes
        SELECT (ARRAY['I', 'J', 'K', 'E'])[1 + i % 4] || 10 + i, 'Disease ' || i,
            (ARRAY['circulatory', 'respiratory', 'digestive', 'endocrine'])[1 + i % 4]
        FROM generate_series(0, 19) AS r(i)""",
    """INSERT INTO clinic.diagnoses
        SELECT id, p, (SELECT code FROM clinic.icd_codes OFFSET least(19, floor(-4 * ln(1 - x)))::int LIMIT 1)
        FROM (SELECT id, p, random() AS x FROM clinic.admissions, generate_series(1, 2) AS r(p)) AS y""",
    """INSERT INTO clinic.concepts VALUES ('2345-7', 'glucose', 'mg/dL'), ('2160-0', 'creatinine', 'mg/dL'),
        ('718-7', 'haemoglobin', 'g/dL'), ('2951-2', 'sodium', 'mmol/L')""",
    """INSERT INTO clinic.lab_results (admission_id, loinc, value, abnormal, taken_at)
        SELECT a.id, loinc, CASE WHEN random() > 0.02 THEN middle * (0.7 + 0.6 * random()) END, random() < 0.2,
            admitted_at + random() * interval '12 hours'
        FROM clinic.admissions a, (VALUES ('2345-7', 100), ('2160-0', 1), ('718-7', 14), ('2951-2', 140))
            AS c(loinc, middle) WHERE random() < 0.6""",
    """INSERT INTO clinic.family_links
        SELECT md5('patient ' || i)::uuid, md5('patient ' || i + 1)::uuid, 'parent'
        FROM generate_series(1, 600) AS r(i)""",
    """INSERT INTO "Billing"."Invoices"
        SELECT row_number() OVER (ORDER BY id), id, 40000 + (200000 * random() ^ 2)::int,
            (ARRAY['Public', 'Public', 'Private', 'Self'])[1 + floor(4 * random())::int]::"Billing"."Payer",
            discharged_at + interval '3 days'
        FROM clinic.admissions WHERE discharged_at IS NOT NULL""",
    """INSERT INTO "Billing"."Payments"
        SELECT "invoiceId", "invoiceId", "amountCents", "issuedAt" + random() * interval '40 days'
        FROM "Billing"."Invoices" WHERE random() < 0.8""",
    "ANALYZE",
)

SHOWN_ROWS = (
    "CREATE TEMP TABLE p AS SELECT id FROM clinic.patients "
    "WHERE NOT (deleted_at IS NULL AND (consents->>'research')::boolean)",
    "CREATE TEMP TABLE a AS SELECT id FROM clinic.admissions WHERE deleted_at IS NOT NULL OR patient_id IN (TABLE p)",
    'CREATE TEMP TABLE i AS SELECT "invoiceId" FROM "Billing"."Invoices" WHERE "admissionId" IN (TABLE a)',
    "SET session_replication_role = replica",
    'DELETE FROM "Billing"."Payments" WHERE "invoiceId" IN (TABLE i)',
    'DELETE FROM "Billing"."Invoices" WHERE "admissionId" IN (TABLE a)',
    "DELETE FROM clinic.lab_results WHERE admission_id IN (TABLE a)",
    "DELETE FROM clinic.diagnoses WHERE admission_id IN (TABLE a)",
    "DELETE FROM clinic.admissions WHERE id IN (TABLE a)",
    "DELETE FROM clinic.family_links WHERE patient_id IN (TABLE p) OR relative_id IN (TABLE p)",
    "DELETE FROM clinic.patients WHERE id IN (TABLE p)",
    "ALTER TABLE clinic.patients ADD COLUMN language text GENERATED ALWAYS AS (consents->>'language') STORED",
    "ALTER TABLE clinic.admissions DROP COLUMN attending_doctor_id",
)
"""Leaves the rows and columns that the policy of test_hospital.py leaves."""
