"""ClickBench: the columns of its table that its queries use, filled by us, and a policy over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from benchmarks.corpora.suite import Suite

USERS = 50_000
SCHEMA = """
CREATE TABLE hits (watchid BIGINT PRIMARY KEY, title TEXT NOT NULL, eventtime TIMESTAMP NOT NULL,
    eventdate DATE NOT NULL, counterid INTEGER NOT NULL, clientip INTEGER NOT NULL, regionid INTEGER NOT NULL,
    userid BIGINT NOT NULL, url TEXT NOT NULL, referer TEXT NOT NULL, isrefresh SMALLINT NOT NULL,
    resolutionwidth SMALLINT NOT NULL, mobilephone SMALLINT NOT NULL, mobilephonemodel TEXT NOT NULL,
    traficsourceid SMALLINT NOT NULL, searchengineid SMALLINT NOT NULL, searchphrase TEXT NOT NULL,
    advengineid SMALLINT NOT NULL, windowclientwidth SMALLINT NOT NULL, windowclientheight SMALLINT NOT NULL,
    islink SMALLINT NOT NULL, isdownload SMALLINT NOT NULL, dontcounthits SMALLINT NOT NULL,
    refererhash BIGINT NOT NULL, urlhash BIGINT NOT NULL);
"""
POLICY = """
[privacy]
epsilon_per = 0.15
[budget]
information = 1000000
calls = 100000
period = "none"

[tables.hits]
privacy_unit = "userid"
unique = ["watchid"]
max_rows_per_unit = 60
max_rows_per_unit_per_group = 20
max_groups_per_unit = { regionid = 2, mobilephonemodel = 2, mobilephone = 2 }
[tables.hits.columns]
eventtime = { range = ["2013-07-01", "2013-07-31"] }
eventdate = { range = ["2013-07-01", "2013-07-31"] }
isrefresh = { domain = [0, 1], bounds = [0, 1] }
islink = { domain = [0, 1] }
isdownload = { domain = [0, 1] }
dontcounthits = { domain = [0, 1] }
resolutionwidth = { bounds = [0, 4000] }
advengineid = { range = [0, 100], bounds = [0, 100] }
searchengineid = { range = [0, 100] }
traficsourceid = { range = [-1, 10] }
mobilephone = { range = [0, 100] }
"""
# A tenth of the users come by 20 addresses of offices and carriers, all others have one of their own. A popular page
# has the hash that two of the queries look for. u1, u2, ... are uniform in [0, 1).
ROWS = """
WITH users AS (
    SELECT i, (hash(i, 0) >> 1)::BIGINT AS userid, 1 + floor(60 * pow({u:i, 1}, 4))::INTEGER AS hits,
        floor(400 * pow({u:i, 2}, 3))::INTEGER AS regionid,
        CASE WHEN {u:i, 7} < 0.1 THEN floor(20 * pow({u:i, 8}, 3))::INTEGER ELSE (hash(i, 3) % 2000000000)::INTEGER
            END AS clientip,
        [1366, 1920, 1280, 1024, 1600, 360][1 + floor(6 * pow({u:i, 4}, 2))::INTEGER] AS width,
        CASE WHEN {u:i, 5} < 0.9 THEN 0 ELSE 1 + floor(40 * pow({u:i, 6}, 2))::INTEGER END AS phone
    FROM range({users}) AS r(i)
), drawn AS (
    SELECT users.*, h, TIMESTAMP '2013-07-01' + to_seconds(floor(2678400 * {u:i, h, 1})::BIGINT) AS eventtime,
        floor(3000 * pow({u:i, h, 2}, 4))::INTEGER AS page,
        CASE WHEN {u:i, h, 3} < 0.7 THEN '' ELSE 'words ' || floor(3000 * pow({u:i, h, 4}, 3))::INTEGER END AS phrase,
        floor(400 * pow({u:i, h, 5}, 3))::INTEGER AS came_from, (hash(i, h, 6) % 100)::INTEGER AS percent
    FROM users, unnest(range(hits)) AS n(h)
)
SELECT row_number() OVER () AS watchid,
    CASE WHEN page % 7 = 3 THEN 'Google maps of ' || page ELSE 'Page ' || page END AS title,
    eventtime, eventtime::DATE AS eventdate, CASE WHEN page < 40 THEN 62 ELSE page END AS counterid, clientip,
    regionid, userid,
    'http://' || CASE WHEN page % 9 = 4 THEN 'google' ELSE 'site' || page % 50 END || '.example/' || page AS url,
    CASE WHEN percent < 20 THEN '' ELSE 'http://www.site' || came_from || '.example/from' END AS referer,
    (percent % 10 = 0)::SMALLINT AS isrefresh, width AS resolutionwidth, phone AS mobilephone,
    CASE WHEN phone = 0 THEN '' ELSE 'Model ' || phone END AS mobilephonemodel,
    (percent % 12) - 1 AS traficsourceid, CASE WHEN phrase = '' THEN 0 ELSE 1 + percent % 4 END AS searchengineid,
    phrase AS searchphrase, CASE WHEN percent < 97 THEN 0 ELSE percent - 95 END AS advengineid,
    width - 20 * (percent % 3) AS windowclientwidth, 600 + 40 * (percent % 8) AS windowclientheight,
    (percent % 15 = 0)::SMALLINT AS islink, (percent = 30)::SMALLINT AS isdownload, 0 AS dontcounthits,
    CASE WHEN came_from = 0 THEN 3594120000172545465 ELSE came_from END AS refererhash,
    CASE WHEN page = 0 THEN 2868770270353813622 ELSE page END AS urlhash
FROM drawn
"""
SUITE = Suite(
    "ClickBench",
    f"""The queries are postgresql/queries.sql of the repository ClickHouse/ClickBench, which is not included here:
`make coverage CLICKBENCH=queries.sql` names the file. Our table `hits` has only the columns that the queries use,
filled with generated data: {USERS:,} users, a tenth of whom share 20 addresses, and some 630,000 skewed rows. The
privacy unit is the user. Data generator and
policy are in [benchmarks/corpora/clickbench.py](../benchmarks/corpora/clickbench.py).""",
    SCHEMA,
    POLICY,
)


def rows_query(users: int) -> str:
    """The rows of so many users as a query of DuckDB; the same ones every time."""
    parts = ROWS.replace("{users}", str(users)).split("{u:")
    return parts[0] + "".join(
        f"((hash({p.partition('}')[0]}) % 1000000) / 1e6){p.partition('}')[2]}" for p in parts[1:]
    )


@contextmanager
def data(users: int = USERS) -> Iterator[Mapping[str, Path]]:
    """The table as a CSV file."""
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        file = Path(folder) / "hits.csv"
        connection.execute(f"COPY ({rows_query(users)}) TO '{file}' (FORMAT csv, HEADER)")
        yield {"hits": file}
