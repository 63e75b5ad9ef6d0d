-- DataGrip
SET application_name = 'DataGrip'; SHOW application_name
SHOW TRANSACTION ISOLATION LEVEL
SELECT current_schemas(false)
SELECT t.relkind, t.relname, pg_catalog.obj_description(t.oid, 'pg_class'), t.relpersistence, t.relispartition FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = 'app' AND t.relname = 'users' AND t.relkind IN ('r', 'm', 'v', 'p', 'f')
SELECT c.relname, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE c.relnamespace = 'app'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND c.relname IN ('users', 'events', 'articles')
SELECT r.relname, c.conname, c.contype, c.conkey, c.confkey, c.confupdtype, c.confdeltype, pg_catalog.pg_get_constraintdef(c.oid) FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_class r ON r.oid = c.conrelid WHERE c.connamespace = 'app'::regnamespace AND c.contype IN ('p', 'f', 'u')
-- DBeaver
SET extra_float_digits = 3; SHOW extra_float_digits
SELECT current_schema() IS NOT NULL, session_user = current_user
SELECT typcategory FROM pg_catalog.pg_type WHERE 1 <> 1 LIMIT 1
SELECT string_agg(word, ',' ORDER BY word) FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs,absolute,action}'::text[])
SELECT name, setting FROM pg_catalog.pg_settings WHERE name = 'standard_conforming_strings'
SELECT i.indisprimary, i.indisunique, c.relname, pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'app.users'::regclass
-- Tableau
SET DateStyle = 'ISO'; SHOW DateStyle
BEGIN; DECLARE "SQL_CUR0x7f" SCROLL CURSOR WITH HOLD FOR SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v') AND n.nspname = 'app' ORDER BY 1, 2; FETCH 2048 IN "SQL_CUR0x7f"; CLOSE "SQL_CUR0x7f"; COMMIT
SELECT 1 FROM (SELECT 1 AS one) t GROUP BY one HAVING COUNT(1) > 0
SELECT DISTINCT title FROM app.articles ORDER BY 1 LIMIT 3
SELECT SUM(1) AS "sum:Number of Records:ok" FROM app.articles HAVING COUNT(1) > 0
-- Power BI and Npgsql
SELECT ns.nspname, t.typname, t.typtype, t.typnotnull, e.typname AS elemtypname FROM pg_type t JOIN pg_namespace ns ON ns.oid = t.typnamespace LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typinput = 'array_in'::regproc WHERE ns.nspname = 'pg_catalog' AND t.typtype IN ('b', 'r', 'm', 'e', 'd') AND t.typname IN ('bool', '_int4', 'int4range', 'uuid', 'jsonb', '_text')
SELECT enumlabel FROM pg_enum WHERE enumtypid = 'bool'::regtype ORDER BY enumsortorder
DISCARD ALL
CLOSE ALL; UNLISTEN *; RESET ALL; DISCARD TEMP; SELECT 1
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA NOT IN ('information_schema', 'pg_catalog', 'dpproxy')
SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, CASE WHEN (data_type LIKE '%unsigned%') THEN DATA_TYPE || ' unsigned' ELSE DATA_TYPE END AS DATA_TYPE FROM INFORMATION_SCHEMA.columns WHERE TABLE_SCHEMA = 'app' AND TABLE_NAME = 'events'
SELECT ii.COLUMN_NAME, ii.ORDINAL_POSITION FROM INFORMATION_SCHEMA.key_column_usage ii JOIN INFORMATION_SCHEMA.table_constraints i ON i.CONSTRAINT_SCHEMA = ii.CONSTRAINT_SCHEMA AND i.CONSTRAINT_NAME = ii.CONSTRAINT_NAME WHERE i.TABLE_SCHEMA = 'app' AND i.CONSTRAINT_TYPE = 'PRIMARY KEY'
select "$Table"."title" as "title" from "app"."articles" "$Table" order by 1 limit 2
-- Grafana
SELECT extname FROM pg_extension WHERE extname = 'timescaledb'
SELECT quote_ident(table_name) FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', 'dpproxy') AND table_type = 'BASE TABLE' ORDER BY 1
SELECT quote_ident(column_name), data_type FROM information_schema.columns WHERE quote_ident(table_name) = 'articles' AND quote_ident(table_schema) = 'app'
SELECT CASE WHEN trim(s[i]) = '"$user"' THEN 'user' ELSE trim(s[i]) END FROM generate_series(1, 1) i, (SELECT ARRAY['app']) AS t(s)
-- Metabase
SELECT c.relname, has_any_column_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'UPDATE') FROM pg_class c WHERE c.relnamespace = 'app'::regnamespace AND c.relkind = 'r'
SELECT TRUE AS "_" WHERE 1 <> 1
SHOW timezone
SET SESSION TIMEZONE TO 'Europe/Berlin'; SELECT timestamptz '2024-01-01 00:00:00+00'
SELECT pk.relname, fk.relname FROM pg_constraint k JOIN pg_class fk ON fk.oid = k.conrelid JOIN pg_class pk ON pk.oid = k.confrelid WHERE k.contype = 'f' AND fk.relnamespace = 'app'::regnamespace
-- Superset
SHOW standard_conforming_strings
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND nspname NOT IN ('dpproxy') ORDER BY nspname
SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'app' AND c.relkind IN ('r', 'p')
SET search_path = 'app'; SELECT count(*) FROM articles
-- pgAdmin
SET client_min_messages = notice; SELECT set_config('bytea_output', 'hex', false) FROM pg_show_all_settings() WHERE name = 'bytea_output'
SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()
SELECT rolcanlogin, rolsuper, rolcreatedb, rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user
SELECT pg_is_in_recovery()
SELECT nsp.nspname, pg_catalog.has_schema_privilege(nsp.oid, 'CREATE') AS can_create, pg_catalog.has_schema_privilege(nsp.oid, 'USAGE') AS has_usage FROM pg_catalog.pg_namespace nsp WHERE nsp.nspname = 'app'
SELECT count(*) FROM pg_catalog.pg_trigger WHERE NOT tgisinternal
-- Looker
SET TIME ZONE 'UTC'; SHOW timezone
SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema <> 'information_schema' AND table_schema NOT LIKE 'pg_%' AND table_schema <> 'dpproxy'
SELECT pg_backend_pid() > 0
SET statement_timeout = 60000; SHOW statement_timeout
-- Prisma
SELECT EXISTS(SELECT 1 FROM pg_namespace WHERE nspname = 'app'), current_setting('server_version_num')::int >= 150000
SELECT tbl.relname, namespace.nspname, (tbl.relhassubclass AND tbl.relkind = 'p') AS is_partition, tbl.relhastriggers AND false FROM pg_class AS tbl INNER JOIN pg_namespace AS namespace ON namespace.oid = tbl.relnamespace WHERE tbl.relkind IN ('r', 'p') AND namespace.nspname = ANY ('{app}'::text[])
SELECT oid.typname, info.column_name, info.is_nullable, info.is_identity, info.character_maximum_length, info.numeric_precision FROM information_schema.columns info JOIN pg_attribute att ON att.attname = info.column_name AND att.attrelid = ('"' || info.table_schema || '"."' || info.table_name || '"')::regclass JOIN pg_type oid ON oid.oid = att.atttypid WHERE info.table_schema = 'app' AND info.table_name = 'events'
SELECT t.typname, e.enumlabel FROM pg_type t JOIN pg_enum e ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname = 'app'
SELECT sequencename FROM pg_sequences WHERE schemaname = 'app'
-- Hibernate
SELECT * FROM information_schema.sequences
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; SHOW default_transaction_read_only
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ; SHOW transaction_isolation
select a1_0.article_id,a1_0.title from app.articles a1_0 where a1_0.article_id=7 offset 0 rows fetch first 2 rows only
-- RPostgres and odbc
SELECT table_name FROM INFORMATION_SCHEMA.tables WHERE (table_schema = ANY(array['app'])) AND (table_type <> 'VIEW') ORDER BY table_name
SELECT column_name FROM INFORMATION_SCHEMA.columns WHERE table_name = 'users' AND table_schema = 'app' ORDER BY ordinal_position
SELECT * FROM "app"."articles" AS "q01" WHERE (0 = 1)
SELECT typname FROM pg_catalog.pg_type WHERE typname IN ('lo', 'hstore', 'geometry')
-- Rust's tokio-postgres and sqlx
SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 1009
START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE; SELECT 1; COMMIT
-- Go's pgx and lib/pq
SELECT oid::int, typname, typtype FROM pg_type WHERE oid = 1184
begin isolation level read committed read only; savepoint sp_1; select count(*) from app.articles; rollback to savepoint sp_1; release savepoint sp_1; commit
LISTEN events; UNLISTEN events; SELECT 1
-- Hex and notebooks
SELECT table_catalog = current_database(), table_schema, table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'app' AND table_name = 'users' ORDER BY ordinal_position
EXPLAIN (COSTS OFF) SELECT 1
