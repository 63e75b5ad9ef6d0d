SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA dpproxy_ledger;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE dpproxy_ledger.account (
    name text NOT NULL,
    limit_information bigint NOT NULL,
    limit_calls bigint NOT NULL,
    period text NOT NULL,
    mode text NOT NULL,
    used_information bigint DEFAULT 0 NOT NULL,
    used_calls bigint DEFAULT 0 NOT NULL,
    reserved_information bigint DEFAULT 0 NOT NULL,
    reserved_calls bigint DEFAULT 0 NOT NULL,
    period_number bigint DEFAULT 0 NOT NULL,
    period_started timestamp with time zone,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    frozen boolean DEFAULT false NOT NULL,
    period_first bigint DEFAULT 0 NOT NULL,
    limit_epsilon bigint DEFAULT 0 NOT NULL,
    used_epsilon numeric(40,0) DEFAULT 0 NOT NULL,
    reserved_epsilon numeric(40,0) DEFAULT 0 NOT NULL,
    CONSTRAINT account_limit_calls_check CHECK ((limit_calls >= 0)),
    CONSTRAINT account_limit_epsilon_check CHECK (((limit_epsilon >= 0) AND (limit_epsilon <= '1152921504606846975'::bigint))),
    CONSTRAINT account_limit_information_check CHECK ((limit_information >= 0)),
    CONSTRAINT account_mode_check CHECK ((mode = ANY (ARRAY['enforce'::text, 'track'::text]))),
    CONSTRAINT account_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT account_period_check CHECK ((period = ANY (ARRAY['none'::text, 'day'::text, 'week'::text, 'month'::text]))),
    CONSTRAINT account_reserved_calls_check CHECK ((reserved_calls >= 0)),
    CONSTRAINT account_reserved_epsilon_check CHECK ((reserved_epsilon >= (0)::numeric)),
    CONSTRAINT account_reserved_information_check CHECK ((reserved_information >= 0)),
    CONSTRAINT account_used_calls_check CHECK ((used_calls >= 0)),
    CONSTRAINT account_used_epsilon_check CHECK ((used_epsilon >= (0)::numeric)),
    CONSTRAINT account_used_information_check CHECK ((used_information >= 0)),
    CONSTRAINT account_within_limits CHECK (((mode = 'track'::text) OR (((used_calls + reserved_calls) <= limit_calls) AND (((used_information + reserved_information) <= limit_information) OR ((used_epsilon + reserved_epsilon) <= (limit_epsilon)::numeric)))))
);
CREATE TABLE dpproxy_ledger.analyst (
    name text NOT NULL,
    verifier text NOT NULL,
    added_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT analyst_name_check CHECK (((length(name) >= 1) AND (length(name) <= 63)))
);
CREATE TABLE dpproxy_ledger.answer (
    release_key bytea NOT NULL,
    reservation uuid NOT NULL,
    answer bytea NOT NULL,
    information bigint NOT NULL,
    calls bigint NOT NULL,
    epoch text NOT NULL,
    stored_at timestamp with time zone NOT NULL,
    epsilon bigint NOT NULL,
    CONSTRAINT answer_calls_check CHECK ((calls >= 0)),
    CONSTRAINT answer_information_check CHECK ((information >= 0))
);
CREATE TABLE dpproxy_ledger.choice (
    account text NOT NULL,
    choice_key bytea NOT NULL,
    place integer NOT NULL,
    release_key bytea NOT NULL
);
CREATE TABLE dpproxy_ledger.computing (
    key bytea NOT NULL
);
CREATE TABLE dpproxy_ledger.entry (
    number bigint NOT NULL,
    reservation uuid NOT NULL,
    account text NOT NULL,
    own boolean NOT NULL,
    stage smallint NOT NULL,
    kind text NOT NULL,
    opened smallint,
    at_most_information bigint NOT NULL,
    at_most_calls bigint NOT NULL,
    information bigint NOT NULL,
    calls bigint NOT NULL,
    period_number bigint NOT NULL,
    written_at timestamp with time zone NOT NULL,
    instance text,
    lease_until timestamp with time zone,
    mechanism text,
    query text,
    release_key bytea,
    replayed boolean DEFAULT false NOT NULL,
    noise text,
    attributed text,
    at_most_epsilon bigint NOT NULL,
    epsilon bigint NOT NULL,
    CONSTRAINT entry_at_most_calls_check CHECK ((at_most_calls >= 0)),
    CONSTRAINT entry_at_most_epsilon_check CHECK ((at_most_epsilon >= 0)),
    CONSTRAINT entry_at_most_information_check CHECK ((at_most_information >= 0)),
    CONSTRAINT entry_calls_check CHECK ((calls >= 0)),
    CONSTRAINT entry_epsilon_check CHECK ((epsilon >= 0)),
    CONSTRAINT entry_information_check CHECK ((information >= 0)),
    CONSTRAINT entry_kind CHECK ((((stage = 0) AND (kind = 'reserve'::text) AND (opened IS NULL)) OR ((stage = 1) AND (kind = ANY (ARRAY['settle'::text, 'spend'::text, 'release'::text])) AND (opened IS NOT NULL)) OR ((stage = 1) AND (kind = 'replay'::text) AND (opened IS NULL)))),
    CONSTRAINT entry_opened_check CHECK ((opened = 0)),
    CONSTRAINT entry_units CHECK ((information <= (2 * epsilon))),
    CONSTRAINT entry_within_epsilon CHECK ((epsilon <= at_most_epsilon)),
    CONSTRAINT entry_within_reservation CHECK (((information <= at_most_information) AND (calls <= at_most_calls)))
);
ALTER TABLE dpproxy_ledger.entry ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dpproxy_ledger.entry_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dpproxy_ledger.epoch (
    name text NOT NULL,
    nonce bytea NOT NULL,
    CONSTRAINT epoch_nonce_check CHECK ((length(nonce) = 32))
);
CREATE TABLE dpproxy_ledger.flushed (
    session integer NOT NULL,
    at timestamp with time zone NOT NULL
);
CREATE TABLE dpproxy_ledger.held (
    reservation uuid NOT NULL,
    instance text NOT NULL,
    lease_until timestamp with time zone NOT NULL
);
CREATE TABLE dpproxy_ledger.limit_change (
    number bigint NOT NULL,
    account text NOT NULL,
    limit_information bigint NOT NULL,
    limit_calls bigint NOT NULL,
    period text NOT NULL,
    mode text NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    frozen boolean DEFAULT false NOT NULL,
    limit_epsilon bigint DEFAULT 0 NOT NULL
);
ALTER TABLE dpproxy_ledger.limit_change ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dpproxy_ledger.limit_change_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dpproxy_ledger.look (
    stream bytea NOT NULL,
    number bigint NOT NULL,
    release_key bytea NOT NULL,
    CONSTRAINT look_number_check CHECK ((number > 0))
);
CREATE TABLE dpproxy_ledger.mark (
    reservation uuid NOT NULL,
    reached boolean NOT NULL,
    written_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE dpproxy_ledger.migration (
    version integer NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE dpproxy_ledger.pinned (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE dpproxy_ledger.policy (
    deployment text NOT NULL,
    generation bigint NOT NULL,
    buying boolean NOT NULL,
    CONSTRAINT policy_deployment_check CHECK ((length(deployment) > 0)),
    CONSTRAINT policy_generation_check CHECK ((generation > 0))
);
CREATE TABLE dpproxy_ledger.publication (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL,
    version uuid DEFAULT gen_random_uuid() NOT NULL,
    publisher text NOT NULL,
    query text NOT NULL,
    settings jsonb NOT NULL,
    refresh text NOT NULL,
    columns jsonb NOT NULL,
    comments jsonb NOT NULL,
    answer bytea NOT NULL,
    information bigint NOT NULL,
    calls bigint NOT NULL,
    released_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    claim uuid,
    failure text,
    choices jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT publication_calls_check CHECK ((calls >= 0)),
    CONSTRAINT publication_information_check CHECK ((information >= 0)),
    CONSTRAINT publication_name_check CHECK (((length(name) >= 1) AND (length(name) <= 63))),
    CONSTRAINT publication_refresh_check CHECK ((refresh = ANY (ARRAY['epoch'::text, 'period'::text, 'once'::text])))
);
ALTER TABLE dpproxy_ledger.publication ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dpproxy_ledger.publication_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dpproxy_ledger.refusal (
    account text NOT NULL,
    code text NOT NULL,
    day date NOT NULL,
    counter uuid NOT NULL,
    times bigint NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT refusal_code_check CHECK ((length(code) = 5)),
    CONSTRAINT refusal_times_check CHECK ((times > 0))
);
CREATE TABLE dpproxy_ledger.refusal_shape (
    code text NOT NULL,
    shape text NOT NULL,
    day date NOT NULL,
    counter uuid NOT NULL,
    times bigint NOT NULL,
    CONSTRAINT refusal_shape_code_check CHECK ((length(code) = 5)),
    CONSTRAINT refusal_shape_shape_check CHECK (((length(shape) >= 1) AND (length(shape) <= 500))),
    CONSTRAINT refusal_shape_times_check CHECK ((times > 0))
);
CREATE TABLE dpproxy_ledger.request (
    number bigint NOT NULL,
    account text NOT NULL,
    request_key bytea NOT NULL,
    release_key bytea NOT NULL,
    mechanism text NOT NULL,
    query text NOT NULL
);
ALTER TABLE dpproxy_ledger.request ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dpproxy_ledger.request_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dpproxy_ledger.statement (
    account text NOT NULL,
    release_key bytea NOT NULL,
    sealed bytea NOT NULL
);
CREATE TABLE dpproxy_ledger.stream_paid (
    stream bytea NOT NULL,
    account text NOT NULL,
    period_number bigint NOT NULL
);
INSERT INTO dpproxy_ledger.account VALUES
	('analyst:ann', 120000000, 40000000, 'none', 'enforce', 11800000, 1000000, 0, 0, 1, '2026-11-26 05:22:04.298241+00', '2026-11-26 05:22:25.882687+00', false, 1, 0, 4611686018427387904, 0),
	('dataset', 500000000, 40000000, 'none', 'enforce', 46350000, 5000000, 0, 0, 1, '2026-11-26 05:22:04.29832+00', '2026-11-26 05:22:25.882997+00', false, 1, 0, 14987979559889010688, 0),
	('analyst:bob', 90000000, 20000000, 'month', 'enforce', 2000000, 0, 0, 0, 1, '2026-11-26 05:22:04.469465+00', '2026-11-26 05:22:34.054846+00', false, 1, 0, 2305843009213693952, 0),
	('analyst:dan', 200000000, 40000000, 'none', 'enforce', 6000000, 1000000, 0, 0, 1, '2026-11-26 05:22:06.097249+00', '2026-11-26 05:22:40.491877+00', true, 1, 0, 4611686018427387904, 0),
	('team:sales', 160000000, 40000000, 'none', 'enforce', 15550000, 1000000, 0, 0, 1, '2026-11-26 05:22:04.298324+00', '2026-11-26 05:22:46.751942+00', false, 1, 0, 6917529027641081856, 0),
	('analyst:cat', 200000000, 2000000, 'week', 'track', 22700000, 3000000, 0, 0, 1, '2026-11-26 05:22:05.381518+00', '2026-11-26 05:22:52.593391+00', false, 1, 0, 3458764513820540928, 0);
INSERT INTO dpproxy_ledger.analyst VALUES
	('ann', 'SCRAM-SHA-256$4096:WRuhozTWVlaopV8sw4I29A==$3J233MLgRaIP+PhzOBAeuyeouyUW+qMFBLHaUBVicQo=:RyYzmEn8UxbJkZDTPb8mGM209GLD72cqdhx8QGjriN0=', '2026-11-26 05:22:12.199689+00');
INSERT INTO dpproxy_ledger.answer VALUES
	('\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', '38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', '\x7b226b657973223a5b5d2c226d65617375726564223a5b5b302c6e756c6c2c5b323030335d2c5b31332e3333333333333333333333333333345d2c5b5d2c6e756c6c2c312e39365d5d2c22636f756e7473223a5b305d2c226d656368616e69736d223a224b6e6f776e4761757373222c226e6f746573223a5b5d2c22636f7374223a5b2231222c2230225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 1000000, 0, 'forever', '2026-11-26 05:22:04.377001+00', 1152921504606846976),
	('\xc5f08122b9f25285250f9a0fc32ae087a4f7d25cf4c15072a36826dccc5743d7', '2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', '\x7b226b657973223a5b5b224445222c224652222c225553222c6e756c6c5d5d2c226d65617375726564223a5b5b302c6e756c6c2c5b3637382c3635392c3638312c365d2c5b31332e3333333333333333333333333333342c31332e3333333333333333333333333333342c31332e3333333333333333333333333333342c31332e3333333333333333333333333333345d2c5b5d2c6e756c6c2c312e39365d5d2c22636f756e7473223a5b305d2c226d656368616e69736d223a224b6e6f776e4761757373222c226e6f746573223a5b5d2c22636f7374223a5b2231222c2230225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 1000000, 0, 'forever', '2026-11-26 05:22:04.606823+00', 1152921504606846976),
	('\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2', '00bf3068-4b1d-405a-aafd-99806075dff7', '\x7b226b657973223a5b5b2230222c2231222c2232222c2233222c2234222c2235222c2236222c2237225d5d2c226d65617375726564223a5b5b302c6e756c6c2c5b333431333630362c333532343535322c323438323439302c333332353336312c333332313139372c333438353335312c323931353737362c343033373034315d2c5b3334363030362e323836373538313839352c3334363030362e323836373538313839352c3334363030362e323836373538313839352c3334363030362e323836373538313839352c3334363030362e323836373538313839352c3334363030362e323836373538313839352c3334363030362e323836373538313839352c3334363030362e323836373538313839355d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c32333738345d2c5b312c6e756c6c2c5b3731372c3738372c3537372c3631352c3631302c3639322c3734382c3631385d2c5b3130312e383335303135343433343633312c3130312e383335303135343433343633312c3130312e383335303135343433343633312c3130312e383335303135343433343633312c3130312e383335303135343433343633312c3130312e383335303135343433343633312c3130312e383335303135343433343633312c3130312e383335303135343433343633315d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c375d5d2c22636f756e7473223a5b315d2c226d656368616e69736d223a22556e6974436c6970207832222c226e6f746573223a5b5d2c22636f7374223a5b2232222c2230225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 2000000, 0, 'forever', '2026-11-26 05:22:04.927727+00', 1152921504606846976),
	('\xa94916865db663b16f48ca0b8655c1fb9707a4ed38a7dccadbe55b8a15def1b5', '079ca524-c164-40c3-b581-09f6d34aa680', '\x7b226b657973223a5b5b226e6f74652032222c226e6f74652030222c226e6f74652031225d5d2c226d65617375726564223a5b5b302c6e756c6c2c5b313931322c313838342c313838345d2c5b31332e3232323432383030343638383839392c31332e3232323432383030343638383839392c31332e3232323432383030343638383839395d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c302c5b5d2c372e3939373632333931363134343934325d5d2c22636f756e7473223a5b305d2c226d656368616e69736d223a22556e6b47756d622c20436f7272656c61746564436f756e7473222c226e6f746573223a5b5d2c22636f7374223a5b2236392f3130222c2231225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 6900000, 1000000, 'forever', '2026-11-26 05:22:05.143358+00', 1152921504606846976),
	('\xd298f6e2292b45ae4371243c1fc9f6bb89415b68d2a05afb6b59b2b81e9f397f', '47c55035-f6a3-4f4f-b7e0-e23e5552d304', '\x7b226b657973223a5b5b226e6f74652031222c226e6f74652030222c226e6f74652032225d5d2c226d65617375726564223a5b5b312c6e756c6c2c5b313933332c313930392c313930325d2c5b31332e3232323432383030343638383839392c31332e3232323432383030343638383839392c31332e3232323432383030343638383839395d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c302c5b5d2c372e3939373632333931363134343934325d2c5b302c6e756c6c2c5b313936322c323232352c323136385d2c5b3230302e31343830393333313930373032382c3230302e31343830393333313930373032382c3230302e31343830393333313930373032385d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c31335d5d2c22636f756e7473223a5b302c315d2c226d656368616e69736d223a22556e6b47756d622c20436f7272656c61746564436f756e74732c20556e6974436c6970222c226e6f746573223a5b5d2c22636f7374223a5b2236392f3130222c2231225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 6900000, 1000000, 'forever', '2026-11-26 05:22:05.505714+00', 1152921504606846976),
	('\x53ce1041fd3747cf0d21cb0ba76b7e27f519699403da8a15c19e61cc296a7b6c', 'f10c1ec2-f3df-4877-9db3-49e5af53f093', '\x7b226b657973223a5b5b226e6f74652030222c226e6f74652031222c226e6f74652032225d5d2c226d65617375726564223a5b5b312c6e756c6c2c5b313930382c313930372c313839365d2c5b31332e3232323432383030343638383839392c31332e3232323432383030343638383839392c31332e3232323432383030343638383839395d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c302c5b5d2c372e3939373632333931363134343934325d2c5b302c6e756c6c2c5b323032352c313938362c313937315d2c5b36312e35383430323837313335363030382c36312e35383430323837313335363030382c36312e35383430323837313335363030385d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c345d5d2c22636f756e7473223a5b302c315d2c226d656368616e69736d223a22556e6b47756d622c20436f7272656c61746564436f756e74732c20556e6974436c6970222c226e6f746573223a5b5d2c22636f7374223a5b2237392f3130222c2231225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 7900000, 1000000, 'forever', '2026-11-26 05:22:05.758556+00', 1152921504606846976),
	('\xeefa0bb2c627e70fb27cd90b9af5339b0099973541ab4290fe9ec7cb5aae7929', '7cad59c6-3fe7-4fb7-886d-964c9950851f', '\x7b226b657973223a5b5b226e6f74652031222c226e6f74652030222c226e6f74652032225d5d2c226d65617375726564223a5b5b312c6e756c6c2c5b313931302c313839382c313839345d2c5b31332e3232323432383030343638383839392c31332e3232323432383030343638383839392c31332e3232323432383030343638383839395d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c302c5b5d2c372e3939373632333931363134343934325d2c5b302c6e756c6c2c5b323134312c323033332c323037335d2c5b36312e35383430323837313335363030382c36312e35383430323837313335363030382c36312e35383430323837313335363030385d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c345d5d2c22636f756e7473223a5b302c315d2c226d656368616e69736d223a22556e6b47756d622c20436f7272656c61746564436f756e74732c20556e6974436c6970222c226e6f746573223a5b5d2c22636f7374223a5b2237392f3130222c2231225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 7900000, 1000000, 'forever', '2026-11-26 05:22:05.961592+00', 1152921504606846976),
	('\x151c8337d3ba4f10c4655c1101fb1c72f182d6f269e903fd4af98d4e5176f6d9', '616c9504-9e98-4a98-b389-3e4d3e7d9129', '\x7b226b657973223a5b5d2c226d65617375726564223a5b5b302c22312f32222c5b3435335d2c5b5d2c5b22616c6c20726f7773206f66206f6e6520756e697420746f67657468657220636f756e7420666f7220323020726f7773206174206d6f73742c206561636820666f72207468652073616d65207368617265222c227175616e74696c6520302e352069732077697468696e20312c33323420726f7773207468617420636f756e7420736f206f66206974732072616e6b2077697468203935252c206e6f20696e74657276616c206f66206974732076616c7565206973206b6e6f776e225d2c5b302c31303030312c31305d2c305d5d2c22636f756e7473223a5b5d2c226d656368616e69736d223a225175616e74696c6543686f696365222c226e6f746573223a5b22616c6c20726f7773206f66206f6e6520756e697420746f67657468657220636f756e7420666f7220323020726f7773206174206d6f73742c206561636820666f72207468652073616d65207368617265222c227175616e74696c6520302e352069732077697468696e20312c33323420726f7773207468617420636f756e7420736f206f66206974732072616e6b2077697468203935252c206e6f20696e74657276616c206f66206974732076616c7565206973206b6e6f776e225d2c22636f7374223a5b2231222c2230225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 1000000, 0, 'forever', '2026-11-26 05:22:06.153467+00', 1152921504606846976),
	('\x5998495b69a0091b37841d5037dcce9919bcd83f33a4a09b7576f1750a0a4477', '4dd2278a-a548-41d5-a09c-c495871909d0', '\x7b226b657973223a5b5d2c226d65617375726564223a5b5b302c6e756c6c2c5b33393432395d2c5b313630302e305d2c5b5d2c6e756c6c2c312e39365d2c5b312c6e756c6c2c5b333035383838345d2c5b3139323030302e305d2c5b5d2c6e756c6c2c312e39365d2c5b322c6e756c6c2c5b313939395d2c5b31332e3333333333333333333333333333345d2c5b5d2c6e756c6c2c312e39365d5d2c22636f756e7473223a5b325d2c226d656368616e69736d223a22436c616d70656453756d2078322c204b6e6f776e4761757373222c226e6f746573223a5b5d2c22636f7374223a5b2233222c2230225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 3000000, 0, 'forever', '2026-11-26 05:22:06.321494+00', 1152921504606846976),
	('\x729b5bb4309e0403bbb151e619b855170dbd671cb078a2f4ae46e9de156a5f84', '403338d3-05b5-4707-8eb9-c0a6741e4c74', '\x7b226b657973223a5b5d2c226d65617375726564223a5b5b302c6e756c6c2c5b305d2c5b33352e3237363638343134373532373837345d2c5b22616e20657374696d6174652066726f6d2062656c6f77206f66207468652064697374696e637420636f756e742c206561636820756e697420636f756e74656420666f72206174206d6f737420312076616c75652c206174206c656173742030207769746820393525225d2c6e756c6c2c305d5d2c22636f756e7473223a5b5d2c226d656368616e69736d223a2244697374696e6374436f756e744375727665222c226e6f746573223a5b22616e20657374696d6174652066726f6d2062656c6f77206f66207468652064697374696e637420636f756e742c206561636820756e697420636f756e74656420666f72206174206d6f737420312076616c75652c206174206c656173742030207769746820393525225d2c22636f7374223a5b2231222c2230225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 1000000, 0, 'forever', '2026-11-26 05:22:06.57532+00', 1152921504606846976),
	('\xf6dbfaf8bc05bda9d43c216788e1864b89556f93cbc51b6df4f3563277fa6d23', '01f9c238-80ce-44e8-a7a1-6ff24b9805b0', '\x7b226b657973223a5b5b226e6f74652032222c226e6f74652032222c226e6f74652032222c226e6f74652032222c226e6f74652031222c226e6f74652031222c226e6f74652031222c226e6f74652032222c226e6f74652031222c226e6f74652032225d2c5b22323032342d30372d3037222c22323032342d30372d3039222c22323032342d30372d3132222c22323032342d30382d3137222c22323032342d31302d3139222c22323032342d31302d3230222c22323032342d31302d3232222c22323032342d31312d3137222c22323032342d31322d3133222c22323032342d31322d3239225d5d2c226d65617375726564223a5b5b302c6e756c6c2c5b333134342c333230302c333033322c333235382c333039382c333334362c333237352c323936372c333136322c333135395d2c5b3337382e33353331393935313438343630342c3337382e35383533353430353039363430342c3337382e393238383031363531343934342c3338322e36353930303637303332383034352c3338372e393031363936393638323631382c3338372e39373439343439373130363338352c3338382e31323037323236303331313830352c3338392e393236323338373331323230392c3339312e35383339373537353135343733372c3339322e35343033353633303036383233335d2c5b5d2c6e756c6c2c312e39365d5d2c22636f756e7473223a5b305d2c226d656368616e69736d223a22556e6b6e6f776e446f6d61696e537175617265526f6f74222c226e6f746573223a5b5d2c22636f7374223a5b2231222c2231225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a3336367d', 1000000, 1000000, 'forever', '2026-11-26 05:22:06.994156+00', 1152921504606846976),
	('\x06fe5666cbdfa025f3c5e4e5c0c0f6bb80d11db2fa73615156536cfa517f8dcb', 'eaa2736d-269b-427f-941f-e2d01d935b07', '\x7b226b657973223a5b5b22626c7565222c22677265656e222c22726564225d5d2c226d65617375726564223a5b5b302c6e756c6c2c5b313430392c3936302c313433335d2c5b31332e3232323432383030343638383839392c31332e3232323432383030343638383839392c31332e3232323432383030343638383839395d2c5b5d2c6e756c6c2c312e39362c66616c73652c302c302c5b5d2c372e3939373632333931363134343934325d5d2c22636f756e7473223a5b305d2c226d656368616e69736d223a22436f7272656c61746564436f756e7473222c226e6f746573223a5b5d2c22636f7374223a5b2231392f3130222c2230225d2c226c6f7765726564223a6e756c6c2c2274696d6573223a307d', 1900000, 0, 'forever', '2026-11-26 05:22:25.882687+00', 1152921504606846976);
INSERT INTO dpproxy_ledger.choice VALUES
	('analyst:ann', '\xc778d53a1a9e262783cefd671cdf4e3eacca3a0d7b04ffe79d230983cd8459c5', 0, '\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2'),
	('analyst:ann', '\xca1c970041071a585eab91e4f43427ed2bfc19e10381ea681ca472f82191de99', 1, '\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2');
INSERT INTO dpproxy_ledger.entry OVERRIDING SYSTEM VALUE VALUES
	(1, '38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', 'analyst:ann', true, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.298241+00', 'owner', '2026-11-26 06:22:04.298241+00', 'KnownGauss', 'COUNT(*) of users', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(2, '38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', 'dataset', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.29832+00', 'owner', '2026-11-26 06:22:04.29832+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(3, '38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', 'team:sales', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.298324+00', 'owner', '2026-11-26 06:22:04.298324+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(4, '38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', 'analyst:ann', true, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.377001+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1', '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', false, 'count +- 26.1 with 95% (standard deviation 13.3)', NULL, 1152921504606846976, 1152921504606846976),
	(5, '38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', 'dataset', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.377419+00', NULL, NULL, NULL, NULL, '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(6, '38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', 'team:sales', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.377421+00', NULL, NULL, NULL, NULL, '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(7, '5b4cf8f9-4008-4c38-bb56-df63b30b38a9', 'analyst:ann', true, 1, 'replay', NULL, 0, 0, 0, 0, 1, '2026-11-26 05:22:04.406765+00', NULL, NULL, 'KnownGauss', 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1', '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', true, NULL, 'dpproxy', 0, 0),
	(8, '6cdd6097-1e7e-405e-a8c6-1f742c4f92ed', 'analyst:bob', true, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.469465+00', 'owner', '2026-11-26 06:22:04.469465+00', 'KnownGauss', 'COUNT(*) of users', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(9, '6cdd6097-1e7e-405e-a8c6-1f742c4f92ed', 'dataset', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.469532+00', 'owner', '2026-11-26 06:22:04.469532+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(10, '6cdd6097-1e7e-405e-a8c6-1f742c4f92ed', 'team:sales', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.469537+00', 'owner', '2026-11-26 06:22:04.469537+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(11, '6cdd6097-1e7e-405e-a8c6-1f742c4f92ed', 'analyst:bob', true, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.475508+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1', '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', true, 'count +- 26.1 with 95% (standard deviation 13.3)', NULL, 1152921504606846976, 1152921504606846976),
	(12, '6cdd6097-1e7e-405e-a8c6-1f742c4f92ed', 'dataset', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.475526+00', NULL, NULL, NULL, NULL, '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', true, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(13, '6cdd6097-1e7e-405e-a8c6-1f742c4f92ed', 'team:sales', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.475528+00', NULL, NULL, NULL, NULL, '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', true, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(14, '2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', 'analyst:bob', true, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.577452+00', 'owner', '2026-11-26 06:22:04.577452+00', 'KnownGauss', 'COUNT(*) of users by country', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(15, '2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', 'dataset', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.577578+00', 'owner', '2026-11-26 06:22:04.577578+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(16, '2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', 'team:sales', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:04.577583+00', 'owner', '2026-11-26 06:22:04.577583+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(17, '2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', 'analyst:bob', true, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.606823+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t0"."country" AS "g0" FROM (SELECT "s"."country", "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1', '\xc5f08122b9f25285250f9a0fc32ae087a4f7d25cf4c15072a36826dccc5743d7', false, 'count +- 26.1 with 95% (standard deviation 13.3)', NULL, 1152921504606846976, 1152921504606846976),
	(18, '2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', 'dataset', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.607055+00', NULL, NULL, NULL, NULL, '\xc5f08122b9f25285250f9a0fc32ae087a4f7d25cf4c15072a36826dccc5743d7', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(19, '2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', 'team:sales', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:04.607058+00', NULL, NULL, NULL, NULL, '\xc5f08122b9f25285250f9a0fc32ae087a4f7d25cf4c15072a36826dccc5743d7', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(20, '00bf3068-4b1d-405a-aafd-99806075dff7', 'analyst:ann', true, 0, 'reserve', NULL, 2000000, 0, 0, 0, 1, '2026-11-26 05:22:04.815655+00', 'owner', '2026-11-26 06:22:04.815655+00', 'UnitClip x2', 'COUNT(*), SUM(price) of orders by product_id', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(21, '00bf3068-4b1d-405a-aafd-99806075dff7', 'dataset', false, 0, 'reserve', NULL, 2000000, 0, 0, 0, 1, '2026-11-26 05:22:04.815703+00', 'owner', '2026-11-26 06:22:04.815703+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(22, '00bf3068-4b1d-405a-aafd-99806075dff7', 'team:sales', false, 0, 'reserve', NULL, 2000000, 0, 0, 0, 1, '2026-11-26 05:22:04.815707+00', 'owner', '2026-11-26 06:22:04.815707+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(23, '00bf3068-4b1d-405a-aafd-99806075dff7', 'analyst:ann', true, 1, 'settle', 0, 2000000, 0, 2000000, 0, 1, '2026-11-26 05:22:04.927727+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t0"."product_id" AS "g0" FROM (SELECT "s"."product_id", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
total; "t0"."price"; condition False; scale 2; lo 0; hi 10000; anchor 10000
rows; condition False; anchor 1', '\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2', false, 'count +- 199.6 with 95% (standard deviation 101.8), sum +- 6781.7 with 95% (standard deviation 3460.1); a value of price counts within 0 to 100: the excess is not counted, and the interval does not cover it; one unit counts for at most 7 rows in count, 237.84 in sum: what it has above that is left out, and the interval does not cover it', NULL, 1152921504606846976, 1152921504606846976),
	(24, '00bf3068-4b1d-405a-aafd-99806075dff7', 'dataset', false, 1, 'settle', 0, 2000000, 0, 2000000, 0, 1, '2026-11-26 05:22:04.927944+00', NULL, NULL, NULL, NULL, '\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(25, '00bf3068-4b1d-405a-aafd-99806075dff7', 'team:sales', false, 1, 'settle', 0, 2000000, 0, 2000000, 0, 1, '2026-11-26 05:22:04.927947+00', NULL, NULL, NULL, NULL, '\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(26, '079ca524-c164-40c3-b581-09f6d34aa680', 'analyst:ann', true, 0, 'reserve', NULL, 8650000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.057317+00', 'owner', '2026-11-26 06:22:05.057317+00', 'UnkGumb, CorrelatedCounts', 'COUNT(DISTINCT user_id) of orders by note, top 5', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(27, '079ca524-c164-40c3-b581-09f6d34aa680', 'dataset', false, 0, 'reserve', NULL, 8650000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.057374+00', 'owner', '2026-11-26 06:22:05.057374+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(28, '079ca524-c164-40c3-b581-09f6d34aa680', 'team:sales', false, 0, 'reserve', NULL, 8650000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.057378+00', 'owner', '2026-11-26 06:22:05.057378+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(29, '079ca524-c164-40c3-b581-09f6d34aa680', 'analyst:ann', true, 1, 'settle', 0, 8650000, 1000000, 6900000, 1000000, 1, '2026-11-26 05:22:05.143358+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1', '\xa94916865db663b16f48ca0b8655c1fb9707a4ed38a7dccadbe55b8a15def1b5', false, 'count +- 25.9 with 95% (standard deviation 13.2)', NULL, 1152921504606846976, 1152921504606846976),
	(30, '079ca524-c164-40c3-b581-09f6d34aa680', 'dataset', false, 1, 'settle', 0, 8650000, 1000000, 8650000, 1000000, 1, '2026-11-26 05:22:05.143563+00', NULL, NULL, NULL, NULL, '\xa94916865db663b16f48ca0b8655c1fb9707a4ed38a7dccadbe55b8a15def1b5', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(31, '079ca524-c164-40c3-b581-09f6d34aa680', 'team:sales', false, 1, 'settle', 0, 8650000, 1000000, 8650000, 1000000, 1, '2026-11-26 05:22:05.143567+00', NULL, NULL, NULL, NULL, '\xa94916865db663b16f48ca0b8655c1fb9707a4ed38a7dccadbe55b8a15def1b5', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(32, '47c55035-f6a3-4f4f-b7e0-e23e5552d304', 'analyst:cat', true, 0, 'reserve', NULL, 6900000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.381518+00', 'owner', '2026-11-26 06:22:05.381518+00', 'UnkGumb, CorrelatedCounts, UnitClip', 'COUNT(*) of orders by note, top 3', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(33, '47c55035-f6a3-4f4f-b7e0-e23e5552d304', 'dataset', false, 0, 'reserve', NULL, 6900000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.381563+00', 'owner', '2026-11-26 06:22:05.381563+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(34, '47c55035-f6a3-4f4f-b7e0-e23e5552d304', 'analyst:cat', true, 1, 'settle', 0, 6900000, 1000000, 6900000, 1000000, 1, '2026-11-26 05:22:05.505714+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
rows; condition False; anchor 1', '\xd298f6e2292b45ae4371243c1fc9f6bb89415b68d2a05afb6b59b2b81e9f397f', false, 'count +- 392.3 with 95% (standard deviation 200.1); one unit counts for at most 13 rows in count: what it has above that is left out, and the interval does not cover it', NULL, 1152921504606846976, 1152921504606846976),
	(35, '47c55035-f6a3-4f4f-b7e0-e23e5552d304', 'dataset', false, 1, 'settle', 0, 6900000, 1000000, 6900000, 1000000, 1, '2026-11-26 05:22:05.506052+00', NULL, NULL, NULL, NULL, '\xd298f6e2292b45ae4371243c1fc9f6bb89415b68d2a05afb6b59b2b81e9f397f', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(36, 'f10c1ec2-f3df-4877-9db3-49e5af53f093', 'analyst:cat', true, 0, 'reserve', NULL, 8250000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.590952+00', 'owner', '2026-11-26 06:22:05.590952+00', 'UnkGumb, CorrelatedCounts, UnitClip', 'COUNT(*) of orders by note, top 4', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(37, 'f10c1ec2-f3df-4877-9db3-49e5af53f093', 'dataset', false, 0, 'reserve', NULL, 8250000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.591008+00', 'owner', '2026-11-26 06:22:05.591008+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(38, 'f10c1ec2-f3df-4877-9db3-49e5af53f093', 'analyst:cat', true, 1, 'settle', 0, 8250000, 1000000, 7900000, 1000000, 1, '2026-11-26 05:22:05.758556+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
rows; condition False; anchor 1', '\x53ce1041fd3747cf0d21cb0ba76b7e27f519699403da8a15c19e61cc296a7b6c', false, 'count +- 120.7 with 95% (standard deviation 61.6); one unit counts for at most 4 rows in count: what it has above that is left out, and the interval does not cover it', NULL, 1152921504606846976, 1152921504606846976),
	(39, 'f10c1ec2-f3df-4877-9db3-49e5af53f093', 'dataset', false, 1, 'settle', 0, 8250000, 1000000, 8250000, 1000000, 1, '2026-11-26 05:22:05.75878+00', NULL, NULL, NULL, NULL, '\x53ce1041fd3747cf0d21cb0ba76b7e27f519699403da8a15c19e61cc296a7b6c', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(40, '7cad59c6-3fe7-4fb7-886d-964c9950851f', 'analyst:cat', true, 0, 'reserve', NULL, 9650000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.853475+00', 'owner', '2026-11-26 06:22:05.853475+00', 'UnkGumb, CorrelatedCounts, UnitClip', 'COUNT(*) of orders by note, top 5', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(41, '7cad59c6-3fe7-4fb7-886d-964c9950851f', 'dataset', false, 0, 'reserve', NULL, 9650000, 1000000, 0, 0, 1, '2026-11-26 05:22:05.853518+00', 'owner', '2026-11-26 06:22:05.853518+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(42, '7cad59c6-3fe7-4fb7-886d-964c9950851f', 'analyst:cat', true, 1, 'settle', 0, 9650000, 1000000, 7900000, 1000000, 1, '2026-11-26 05:22:05.961592+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
rows; condition False; anchor 1', '\xeefa0bb2c627e70fb27cd90b9af5339b0099973541ab4290fe9ec7cb5aae7929', false, 'count +- 120.7 with 95% (standard deviation 61.6); one unit counts for at most 4 rows in count: what it has above that is left out, and the interval does not cover it', NULL, 1152921504606846976, 1152921504606846976),
	(43, '7cad59c6-3fe7-4fb7-886d-964c9950851f', 'dataset', false, 1, 'settle', 0, 9650000, 1000000, 9650000, 1000000, 1, '2026-11-26 05:22:05.961775+00', NULL, NULL, NULL, NULL, '\xeefa0bb2c627e70fb27cd90b9af5339b0099973541ab4290fe9ec7cb5aae7929', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(44, '616c9504-9e98-4a98-b389-3e4d3e7d9129', 'analyst:dan', true, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:06.097249+00', 'owner', '2026-11-26 06:22:06.097249+00', 'QuantileChoice', 'PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY price) of orders', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(45, '616c9504-9e98-4a98-b389-3e4d3e7d9129', 'dataset', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:06.097308+00', 'owner', '2026-11-26 06:22:06.097308+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(46, '616c9504-9e98-4a98-b389-3e4d3e7d9129', 'analyst:dan', true, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:06.153467+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
quantiles; "t0"."price"; condition False; scale 2; lo 0; hi 10000; tau 20; weighted True', '\x151c8337d3ba4f10c4655c1101fb1c72f182d6f269e903fd4af98d4e5176f6d9', false, '', NULL, 1152921504606846976, 1152921504606846976),
	(47, '616c9504-9e98-4a98-b389-3e4d3e7d9129', 'dataset', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:06.153652+00', NULL, NULL, NULL, NULL, '\x151c8337d3ba4f10c4655c1101fb1c72f182d6f269e903fd4af98d4e5176f6d9', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(48, '4dd2278a-a548-41d5-a09c-c495871909d0', 'analyst:dan', true, 0, 'reserve', NULL, 3000000, 0, 0, 0, 1, '2026-11-26 05:22:06.273368+00', 'owner', '2026-11-26 06:22:06.273368+00', 'ClampedSum x2, KnownGauss', 'AVG(birth_year), STDDEV(birth_year) of users', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(49, '4dd2278a-a548-41d5-a09c-c495871909d0', 'dataset', false, 0, 'reserve', NULL, 3000000, 0, 0, 0, 1, '2026-11-26 05:22:06.273409+00', 'owner', '2026-11-26 06:22:06.273409+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(50, '4dd2278a-a548-41d5-a09c-c495871909d0', 'analyst:dan', true, 1, 'settle', 0, 3000000, 0, 3000000, 0, 1, '2026-11-26 05:22:06.321494+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
sum; "t0"."birth_year"; condition False; scale 0; lo 1900; hi 2020; tau 1; centred True; whole False
sum of squares; "t0"."birth_year"; condition False; scale 0; lo 1900; hi 2020; tau 1; centred True; whole False
count; NOT ("t0"."birth_year" IS NULL); condition True; tau 1', '\x5998495b69a0091b37841d5037dcce9919bcd83f33a4a09b7576f1750a0a4477', false, 'avg +- 0.79 with 95% (standard deviation 0.41)', NULL, 1152921504606846976, 1152921504606846976),
	(51, '4dd2278a-a548-41d5-a09c-c495871909d0', 'dataset', false, 1, 'settle', 0, 3000000, 0, 3000000, 0, 1, '2026-11-26 05:22:06.321692+00', NULL, NULL, NULL, NULL, '\x5998495b69a0091b37841d5037dcce9919bcd83f33a4a09b7576f1750a0a4477', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(52, '403338d3-05b5-4707-8eb9-c0a6741e4c74', 'analyst:dan', true, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:06.401411+00', 'owner', '2026-11-26 06:22:06.401411+00', 'DistinctCountCurve', 'COUNT(DISTINCT note) of orders', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(53, '403338d3-05b5-4707-8eb9-c0a6741e4c74', 'dataset', false, 0, 'reserve', NULL, 1000000, 0, 0, 0, 1, '2026-11-26 05:22:06.401457+00', 'owner', '2026-11-26 06:22:06.401457+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(54, '403338d3-05b5-4707-8eb9-c0a6741e4c74', 'analyst:dan', true, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:06.57532+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
distinct items; NOT ("t0"."note" IS NULL); "t0"."note"; condition True', '\x729b5bb4309e0403bbb151e619b855170dbd671cb078a2f4ae46e9de156a5f84', false, 'count standard deviation 35.3', NULL, 1152921504606846976, 1152921504606846976),
	(55, '403338d3-05b5-4707-8eb9-c0a6741e4c74', 'dataset', false, 1, 'settle', 0, 1000000, 0, 1000000, 0, 1, '2026-11-26 05:22:06.575603+00', NULL, NULL, NULL, NULL, '\x729b5bb4309e0403bbb151e619b855170dbd671cb078a2f4ae46e9de156a5f84', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(56, '01f9c238-80ce-44e8-a7a1-6ff24b9805b0', 'analyst:dan', true, 0, 'reserve', NULL, 1000000, 1000000, 0, 0, 1, '2026-11-26 05:22:06.919424+00', 'owner', '2026-11-26 06:22:06.919424+00', 'UnknownDomainSquareRoot', 'COUNT(*) of orders by note, CAST(placed AS DATE)', NULL, false, NULL, 'dpproxy', 1152921504606846976, 0),
	(57, '01f9c238-80ce-44e8-a7a1-6ff24b9805b0', 'dataset', false, 0, 'reserve', NULL, 1000000, 1000000, 0, 0, 1, '2026-11-26 05:22:06.919477+00', 'owner', '2026-11-26 06:22:06.919477+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(58, '01f9c238-80ce-44e8-a7a1-6ff24b9805b0', 'analyst:dan', true, 1, 'settle', 0, 1000000, 1000000, 1000000, 1000000, 1, '2026-11-26 05:22:06.994156+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0", CAST("t0"."placed" AS DATE) AS "g1" FROM (SELECT "s"."note", "s"."placed", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
running counts; condition False; time 1; events 10', '\xf6dbfaf8bc05bda9d43c216788e1864b89556f93cbc51b6df4f3563277fa6d23', false, 'sum +- 741.6 to 769.4 with 95% (standard deviation 378.4 to 392.5); at most 10 rows of one unit count, its first: the excess is not counted, and the interval does not cover it', NULL, 1152921504606846976, 1152921504606846976),
	(59, '01f9c238-80ce-44e8-a7a1-6ff24b9805b0', 'dataset', false, 1, 'settle', 0, 1000000, 1000000, 1000000, 1000000, 1, '2026-11-26 05:22:06.994449+00', NULL, NULL, NULL, NULL, '\xf6dbfaf8bc05bda9d43c216788e1864b89556f93cbc51b6df4f3563277fa6d23', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(60, 'eaa2736d-269b-427f-941f-e2d01d935b07', 'analyst:ann', true, 0, 'reserve', NULL, 1900000, 0, 0, 0, 1, '2026-11-26 05:22:25.770834+00', 'owner', '2026-11-26 06:22:25.770834+00', 'CorrelatedCounts', 'COUNT(DISTINCT user_id) of orders, products by products.color where orders.product_id = products.product_id', NULL, false, NULL, '', 1152921504606846976, 0),
	(61, 'eaa2736d-269b-427f-941f-e2d01d935b07', 'dataset', false, 0, 'reserve', NULL, 1900000, 0, 0, 0, 1, '2026-11-26 05:22:25.770916+00', 'owner', '2026-11-26 06:22:25.770916+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(62, 'eaa2736d-269b-427f-941f-e2d01d935b07', 'team:sales', false, 0, 'reserve', NULL, 1900000, 0, 0, 0, 1, '2026-11-26 05:22:25.77092+00', 'owner', '2026-11-26 06:22:25.77092+00', NULL, NULL, NULL, false, NULL, NULL, 1152921504606846976, 0),
	(63, 'eaa2736d-269b-427f-941f-e2d01d935b07', 'analyst:ann', true, 1, 'settle', 0, 1900000, 0, 1900000, 0, 1, '2026-11-26 05:22:25.882687+00', NULL, NULL, NULL, 'SELECT "t0"."_o" AS "_o", "t1"."color" AS "g0" FROM (SELECT "s"."product_id", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0 CROSS JOIN "public"."products" AS t1 WHERE "t0"."product_id" = "t1"."product_id"
count; condition False; tau 1', '\x06fe5666cbdfa025f3c5e4e5c0c0f6bb80d11db2fa73615156536cfa517f8dcb', false, 'buyers +- 25.9 with 95% (standard deviation 13.2)', NULL, 1152921504606846976, 1152921504606846976),
	(64, 'eaa2736d-269b-427f-941f-e2d01d935b07', 'dataset', false, 1, 'settle', 0, 1900000, 0, 1900000, 0, 1, '2026-11-26 05:22:25.882997+00', NULL, NULL, NULL, NULL, '\x06fe5666cbdfa025f3c5e4e5c0c0f6bb80d11db2fa73615156536cfa517f8dcb', false, NULL, NULL, 1152921504606846976, 1152921504606846976),
	(65, 'eaa2736d-269b-427f-941f-e2d01d935b07', 'team:sales', false, 1, 'settle', 0, 1900000, 0, 1900000, 0, 1, '2026-11-26 05:22:25.883+00', NULL, NULL, NULL, NULL, '\x06fe5666cbdfa025f3c5e4e5c0c0f6bb80d11db2fa73615156536cfa517f8dcb', false, NULL, NULL, 1152921504606846976, 1152921504606846976);
INSERT INTO dpproxy_ledger.epoch VALUES
	('forever', '\xd3051eb4113d41e6af8954add94b6db5a60c84c8cce54a74bea855b05dd9c341'),
	('running counts', '\x77a0ea1935554e74b81bf6cdbc9426b2af9bd51c5c7d4bbd9687a9c7fde8eefe');
INSERT INTO dpproxy_ledger.flushed VALUES
	(24925, '2026-11-26 05:22:04.325256+00'),
	(25032, '2026-11-26 05:22:06.944486+00'),
	(25444, '2026-11-26 05:22:25.784486+00');
INSERT INTO dpproxy_ledger.limit_change OVERRIDING SYSTEM VALUE VALUES
	(1, 'analyst:ann', 120000000, 40000000, 'none', 'enforce', '2026-11-26 05:22:04.195844+00', false, 0),
	(2, 'team:sales', 150000000, 40000000, 'none', 'enforce', '2026-11-26 05:22:04.198338+00', false, 0),
	(3, 'dataset', 500000000, 40000000, 'none', 'enforce', '2026-11-26 05:22:04.216972+00', false, 0),
	(4, 'analyst:bob', 200000000, 40000000, 'month', 'enforce', '2026-11-26 05:22:04.45107+00', false, 0),
	(5, 'analyst:cat', 200000000, 2000000, 'none', 'track', '2026-11-26 05:22:05.34648+00', false, 0),
	(6, 'analyst:dan', 200000000, 40000000, 'none', 'enforce', '2026-11-26 05:22:06.071348+00', false, 0),
	(7, 'analyst:bob', 90000000, 20000000, 'month', 'enforce', '2026-11-26 05:22:34.054846+00', false, 0),
	(8, 'analyst:dan', 200000000, 40000000, 'none', 'enforce', '2026-11-26 05:22:40.491877+00', true, 0),
	(9, 'team:sales', 160000000, 40000000, 'none', 'enforce', '2026-11-26 05:22:46.751942+00', false, 0),
	(10, 'analyst:cat', 200000000, 2000000, 'week', 'track', '2026-11-26 05:22:52.593391+00', false, 0);
INSERT INTO dpproxy_ledger.mark VALUES
	('38bc2ee1-bbfd-408e-9653-ecfb6c0fb61c', true, '2026-11-26 05:22:04.299201+00'),
	('6cdd6097-1e7e-405e-a8c6-1f742c4f92ed', true, '2026-11-26 05:22:04.470002+00'),
	('2b3bf9c9-a64d-4a98-9380-d51b8dee9d54', true, '2026-11-26 05:22:04.578603+00'),
	('00bf3068-4b1d-405a-aafd-99806075dff7', true, '2026-11-26 05:22:04.816176+00'),
	('079ca524-c164-40c3-b581-09f6d34aa680', true, '2026-11-26 05:22:05.057821+00'),
	('47c55035-f6a3-4f4f-b7e0-e23e5552d304', true, '2026-11-26 05:22:05.381967+00'),
	('f10c1ec2-f3df-4877-9db3-49e5af53f093', true, '2026-11-26 05:22:05.591435+00'),
	('7cad59c6-3fe7-4fb7-886d-964c9950851f', true, '2026-11-26 05:22:05.854233+00'),
	('616c9504-9e98-4a98-b389-3e4d3e7d9129', true, '2026-11-26 05:22:06.097573+00'),
	('4dd2278a-a548-41d5-a09c-c495871909d0', true, '2026-11-26 05:22:06.273665+00'),
	('403338d3-05b5-4707-8eb9-c0a6741e4c74', true, '2026-11-26 05:22:06.401724+00'),
	('01f9c238-80ce-44e8-a7a1-6ff24b9805b0', true, '2026-11-26 05:22:06.919857+00'),
	('eaa2736d-269b-427f-941f-e2d01d935b07', true, '2026-11-26 05:22:25.771793+00');
INSERT INTO dpproxy_ledger.migration VALUES
	(1, '2026-11-26 05:22:00.914513+00'),
	(2, '2026-11-26 05:22:00.928188+00'),
	(3, '2026-11-26 05:22:00.931994+00'),
	(4, '2026-11-26 05:22:00.945235+00'),
	(5, '2026-11-26 05:22:00.947063+00'),
	(6, '2026-11-26 05:22:00.947647+00'),
	(7, '2026-11-26 05:22:00.956123+00'),
	(8, '2026-11-26 05:22:00.960301+00'),
	(9, '2026-11-26 05:22:00.961937+00'),
	(10, '2026-11-26 05:22:00.962475+00'),
	(11, '2026-11-26 05:22:00.973145+00'),
	(12, '2026-11-26 05:22:00.976421+00'),
	(13, '2026-11-26 05:22:00.985288+00'),
	(14, '2026-11-26 05:22:00.992183+00');
INSERT INTO dpproxy_ledger.pinned VALUES
	('ledger', '261826b6-44e2-478f-bee1-14e930ec403d'),
	('epsilon_per', '3/20'),
	('delta_per', '1/10000000000'),
	('delta_prime', '1/1000000000'),
	('privacy_unit', 'user_id'),
	('data', 'DuckDB file ../../shop.duckdb');
INSERT INTO dpproxy_ledger.policy VALUES
	('owner', 2, true);
INSERT INTO dpproxy_ledger.publication OVERRIDING SYSTEM VALUE VALUES
	('24a5cab4-d2d9-455c-b202-d0e24625d2cc', 1, 'monthly', '01629865-9789-463f-9db3-31d8e8d0cd10', 'ann', 'SELECT color, count(DISTINCT o.user_id) AS buyers FROM orders o JOIN products USING (product_id) GROUP BY color', '{}', 'once', '[["color", "text"], ["buyers", "bigint"], ["buyers_stddev", "double precision"]]', '{}', '\x789c8b8e564aca294d55d251323431b00451c67a4646462646160606266616161696964ab13ad14ae945a9a97940694b3303dc8a8a5253c006191be350130b008d3118cf', 1900000, 0, '2026-11-26 05:22:25.62151+00', NULL, NULL, NULL, '{}');
INSERT INTO dpproxy_ledger.refusal VALUES
	('analyst:bob', 'PV024', '2026-11-26', '545c4f33-fc95-5bae-d768-87c4447beb7a', 1, '2026-11-26 05:22:07.020637+00');
INSERT INTO dpproxy_ledger.refusal_shape VALUES
	('PV024', '3b616595cee2808a', '2026-11-26', '545c4f33-fc95-5bae-d768-87c4447beb7a', 1);
INSERT INTO dpproxy_ledger.request OVERRIDING SYSTEM VALUE VALUES
	(1, 'analyst:ann', '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', 'KnownGauss', 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1'),
	(2, 'analyst:bob', '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', '\x4ece5aeb8e140c9d5a79db6c29b6b26ea902f9b7310581cc1b574f0562ffb2c1', 'KnownGauss', 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1'),
	(3, 'analyst:bob', '\xc5f08122b9f25285250f9a0fc32ae087a4f7d25cf4c15072a36826dccc5743d7', '\xc5f08122b9f25285250f9a0fc32ae087a4f7d25cf4c15072a36826dccc5743d7', 'KnownGauss', 'SELECT "t0"."_o" AS "_o", "t0"."country" AS "g0" FROM (SELECT "s"."country", "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1'),
	(4, 'analyst:ann', '\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2', '\x11a38e691adcd1590ba3353f38f3a906c23c070c78024c4f0a0045b96bac6ac2', 'UnitClip x2', 'SELECT "t0"."_o" AS "_o", "t0"."product_id" AS "g0" FROM (SELECT "s"."product_id", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
total; "t0"."price"; condition False; scale 2; lo 0; hi 10000; anchor 10000
rows; condition False; anchor 1'),
	(5, 'analyst:ann', '\xa94916865db663b16f48ca0b8655c1fb9707a4ed38a7dccadbe55b8a15def1b5', '\xa94916865db663b16f48ca0b8655c1fb9707a4ed38a7dccadbe55b8a15def1b5', 'UnkGumb, CorrelatedCounts', 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
count; condition False; tau 1'),
	(6, 'analyst:cat', '\xd298f6e2292b45ae4371243c1fc9f6bb89415b68d2a05afb6b59b2b81e9f397f', '\xd298f6e2292b45ae4371243c1fc9f6bb89415b68d2a05afb6b59b2b81e9f397f', 'UnkGumb, CorrelatedCounts, UnitClip', 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
rows; condition False; anchor 1'),
	(7, 'analyst:cat', '\x53ce1041fd3747cf0d21cb0ba76b7e27f519699403da8a15c19e61cc296a7b6c', '\x53ce1041fd3747cf0d21cb0ba76b7e27f519699403da8a15c19e61cc296a7b6c', 'UnkGumb, CorrelatedCounts, UnitClip', 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
rows; condition False; anchor 1'),
	(8, 'analyst:cat', '\xeefa0bb2c627e70fb27cd90b9af5339b0099973541ab4290fe9ec7cb5aae7929', '\xeefa0bb2c627e70fb27cd90b9af5339b0099973541ab4290fe9ec7cb5aae7929', 'UnkGumb, CorrelatedCounts, UnitClip', 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0" FROM (SELECT "s"."note", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
rows; condition False; anchor 1'),
	(9, 'analyst:dan', '\x151c8337d3ba4f10c4655c1101fb1c72f182d6f269e903fd4af98d4e5176f6d9', '\x151c8337d3ba4f10c4655c1101fb1c72f182d6f269e903fd4af98d4e5176f6d9', 'QuantileChoice', 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
quantiles; "t0"."price"; condition False; scale 2; lo 0; hi 10000; tau 20; weighted True'),
	(10, 'analyst:dan', '\x5998495b69a0091b37841d5037dcce9919bcd83f33a4a09b7576f1750a0a4477', '\x5998495b69a0091b37841d5037dcce9919bcd83f33a4a09b7576f1750a0a4477', 'ClampedSum x2, KnownGauss', 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."users" AS s WHERE NOT "s"."user_id" IS NULL) AS t0
sum; "t0"."birth_year"; condition False; scale 0; lo 1900; hi 2020; tau 1; centred True; whole False
sum of squares; "t0"."birth_year"; condition False; scale 0; lo 1900; hi 2020; tau 1; centred True; whole False
count; NOT ("t0"."birth_year" IS NULL); condition True; tau 1'),
	(11, 'analyst:dan', '\x729b5bb4309e0403bbb151e619b855170dbd671cb078a2f4ae46e9de156a5f84', '\x729b5bb4309e0403bbb151e619b855170dbd671cb078a2f4ae46e9de156a5f84', 'DistinctCountCurve', 'SELECT "t0"."_o" AS "_o" FROM (SELECT "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
distinct items; NOT ("t0"."note" IS NULL); "t0"."note"; condition True'),
	(12, 'analyst:dan', '\xf6dbfaf8bc05bda9d43c216788e1864b89556f93cbc51b6df4f3563277fa6d23', '\xf6dbfaf8bc05bda9d43c216788e1864b89556f93cbc51b6df4f3563277fa6d23', 'UnknownDomainSquareRoot', 'SELECT "t0"."_o" AS "_o", "t0"."note" AS "g0", CAST("t0"."placed" AS DATE) AS "g1" FROM (SELECT "s"."note", "s"."placed", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0
running counts; condition False; time 1; events 10'),
	(13, 'analyst:ann', '\x06fe5666cbdfa025f3c5e4e5c0c0f6bb80d11db2fa73615156536cfa517f8dcb', '\x06fe5666cbdfa025f3c5e4e5c0c0f6bb80d11db2fa73615156536cfa517f8dcb', 'CorrelatedCounts', 'SELECT "t0"."_o" AS "_o", "t1"."color" AS "g0" FROM (SELECT "s"."product_id", "s"."user_id" AS "_o" FROM "public"."orders" AS s WHERE "s"."user_id" IN (SELECT "u"."user_id" FROM "public"."users" AS u) AND NOT "s"."user_id" IS NULL) AS t0 CROSS JOIN "public"."products" AS t1 WHERE "t0"."product_id" = "t1"."product_id"
count; condition False; tau 1');
SELECT pg_catalog.setval('dpproxy_ledger.entry_number_seq', 65, true);
SELECT pg_catalog.setval('dpproxy_ledger.limit_change_number_seq', 10, true);
SELECT pg_catalog.setval('dpproxy_ledger.publication_number_seq', 1, true);
SELECT pg_catalog.setval('dpproxy_ledger.request_number_seq', 13, true);
ALTER TABLE ONLY dpproxy_ledger.account
    ADD CONSTRAINT account_once PRIMARY KEY (name);
ALTER TABLE ONLY dpproxy_ledger.analyst
    ADD CONSTRAINT analyst_once PRIMARY KEY (name);
ALTER TABLE ONLY dpproxy_ledger.answer
    ADD CONSTRAINT answer_once PRIMARY KEY (release_key);
ALTER TABLE ONLY dpproxy_ledger.answer
    ADD CONSTRAINT answer_paid_once UNIQUE (reservation);
ALTER TABLE ONLY dpproxy_ledger.choice
    ADD CONSTRAINT choice_once PRIMARY KEY (account, choice_key);
ALTER TABLE ONLY dpproxy_ledger.computing
    ADD CONSTRAINT computing_once PRIMARY KEY (key);
ALTER TABLE ONLY dpproxy_ledger.entry
    ADD CONSTRAINT entry_amounts UNIQUE (reservation, account, stage, at_most_information, at_most_calls);
ALTER TABLE ONLY dpproxy_ledger.entry
    ADD CONSTRAINT entry_once UNIQUE (reservation, account, stage);
ALTER TABLE ONLY dpproxy_ledger.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (number);
ALTER TABLE ONLY dpproxy_ledger.epoch
    ADD CONSTRAINT epoch_once PRIMARY KEY (name);
ALTER TABLE ONLY dpproxy_ledger.flushed
    ADD CONSTRAINT flushed_once PRIMARY KEY (session);
ALTER TABLE ONLY dpproxy_ledger.held
    ADD CONSTRAINT held_once PRIMARY KEY (reservation);
ALTER TABLE ONLY dpproxy_ledger.limit_change
    ADD CONSTRAINT limit_change_pkey PRIMARY KEY (number);
ALTER TABLE ONLY dpproxy_ledger.look
    ADD CONSTRAINT look_in_order PRIMARY KEY (stream, number);
ALTER TABLE ONLY dpproxy_ledger.look
    ADD CONSTRAINT look_once UNIQUE (release_key);
ALTER TABLE ONLY dpproxy_ledger.mark
    ADD CONSTRAINT mark_once PRIMARY KEY (reservation);
ALTER TABLE ONLY dpproxy_ledger.migration
    ADD CONSTRAINT migration_once PRIMARY KEY (version);
ALTER TABLE ONLY dpproxy_ledger.pinned
    ADD CONSTRAINT pinned_once PRIMARY KEY (name);
ALTER TABLE ONLY dpproxy_ledger.policy
    ADD CONSTRAINT policy_once PRIMARY KEY (deployment);
ALTER TABLE ONLY dpproxy_ledger.publication
    ADD CONSTRAINT publication_name UNIQUE (name);
ALTER TABLE ONLY dpproxy_ledger.publication
    ADD CONSTRAINT publication_once PRIMARY KEY (id);
ALTER TABLE ONLY dpproxy_ledger.refusal
    ADD CONSTRAINT refusal_pkey PRIMARY KEY (day, account, code, counter);
ALTER TABLE ONLY dpproxy_ledger.refusal_shape
    ADD CONSTRAINT refusal_shape_pkey PRIMARY KEY (day, code, shape, counter);
ALTER TABLE ONLY dpproxy_ledger.request
    ADD CONSTRAINT request_once PRIMARY KEY (account, release_key, request_key);
ALTER TABLE ONLY dpproxy_ledger.statement
    ADD CONSTRAINT statement_once PRIMARY KEY (account, release_key);
ALTER TABLE ONLY dpproxy_ledger.stream_paid
    ADD CONSTRAINT stream_paid_once PRIMARY KEY (stream, account, period_number);
CREATE INDEX answer_by_epoch ON dpproxy_ledger.answer USING btree (epoch);
CREATE INDEX choice_by_release ON dpproxy_ledger.choice USING btree (release_key);
CREATE INDEX entry_answered ON dpproxy_ledger.entry USING btree (account, written_at, number) WHERE (own AND (kind = ANY (ARRAY['settle'::text, 'spend'::text, 'replay'::text])));
CREATE INDEX entry_answered_at ON dpproxy_ledger.entry USING btree (written_at) WHERE (own AND (kind = ANY (ARRAY['settle'::text, 'spend'::text, 'replay'::text])));
CREATE INDEX entry_bought ON dpproxy_ledger.entry USING btree (account, release_key, number) WHERE (own AND (kind = 'settle'::text));
CREATE INDEX entry_by_account ON dpproxy_ledger.entry USING btree (account, number);
CREATE INDEX held_by_lease ON dpproxy_ledger.held USING btree (lease_until);
CREATE INDEX limit_change_by_account ON dpproxy_ledger.limit_change USING btree (account, number);
CREATE INDEX request_by_key ON dpproxy_ledger.request USING btree (account, request_key, number);
CREATE INDEX request_by_release ON dpproxy_ledger.request USING btree (release_key);
CREATE INDEX statement_by_release ON dpproxy_ledger.statement USING btree (release_key);
ALTER TABLE ONLY dpproxy_ledger.choice
    ADD CONSTRAINT choice_account_fkey FOREIGN KEY (account) REFERENCES dpproxy_ledger.account(name);
ALTER TABLE ONLY dpproxy_ledger.choice
    ADD CONSTRAINT choice_release_key_fkey FOREIGN KEY (release_key) REFERENCES dpproxy_ledger.answer(release_key);
ALTER TABLE ONLY dpproxy_ledger.entry
    ADD CONSTRAINT entry_account_fkey FOREIGN KEY (account) REFERENCES dpproxy_ledger.account(name);
ALTER TABLE ONLY dpproxy_ledger.entry
    ADD CONSTRAINT entry_opened FOREIGN KEY (reservation, account, opened, at_most_information, at_most_calls) REFERENCES dpproxy_ledger.entry(reservation, account, stage, at_most_information, at_most_calls);
ALTER TABLE ONLY dpproxy_ledger.limit_change
    ADD CONSTRAINT limit_change_account_fkey FOREIGN KEY (account) REFERENCES dpproxy_ledger.account(name);
ALTER TABLE ONLY dpproxy_ledger.request
    ADD CONSTRAINT request_account_fkey FOREIGN KEY (account) REFERENCES dpproxy_ledger.account(name);
ALTER TABLE ONLY dpproxy_ledger.request
    ADD CONSTRAINT request_release_key_fkey FOREIGN KEY (release_key) REFERENCES dpproxy_ledger.answer(release_key);
ALTER TABLE ONLY dpproxy_ledger.statement
    ADD CONSTRAINT statement_account_fkey FOREIGN KEY (account) REFERENCES dpproxy_ledger.account(name);
ALTER TABLE ONLY dpproxy_ledger.statement
    ADD CONSTRAINT statement_release_key_fkey FOREIGN KEY (release_key) REFERENCES dpproxy_ledger.answer(release_key);
ALTER TABLE ONLY dpproxy_ledger.stream_paid
    ADD CONSTRAINT stream_paid_account_fkey FOREIGN KEY (account) REFERENCES dpproxy_ledger.account(name);
