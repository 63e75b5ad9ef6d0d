PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
QUIET := --quiet --disable-pip-version-check --no-input
INSTALL := -m pip install $(QUIET) --require-hashes
WHEELS := --only-binary :all:
# Where the environment forbids it, each process of the tests would compile the tree again.
export PYTHONDONTWRITEBYTECODE :=
PIP_TOOLS := pip-tools==7.6.2

.PHONY: help demo clients identity programs published image dist availability accuracy bench bench-ratios bench-growth bench-peers reproduce reproduce-sql audit audit-sql audit-sequential corpora coverage bench-scale stability generated oracle truth replay spoiled adversary adversary-mutants operators mutants proofs fuzz bench-noise bench-relay bench-planning timing ledger-torture simulate simulate-mutants simulate-ledger bench-ledger spark test check test-slow lint format reference lines lock clean

# What each target does, the first sentence of it.
help:
	@awk '/^# / { c = (c ? c " " : "") substr($$0, 3); next } \
	  /^[a-z][a-z-]*:/ && c { sub(/:.*/, "", $$1); sub(/\. .*/, ".", c); printf "%-16s %s\n", $$1, c; c = "" } /^$$/ { c = "" }' $(firstword $(MAKEFILE_LIST))

# Everything embedded on the sample data, on 127.0.0.1:6432, until Ctrl-C.
demo: $(VENV)/.run
	@exec $(VENV)/bin/dpproxy demo

# The proxy's overhead over the bare database, queries a second, memory, stages: docs/benchmarks.md. Under half an hour;
# with BENCH=quick, on small data, under five minutes.
bench: $(VENV)/.bench
	$(PY) -m benchmarks.latency

# A private answer beside the plain query, statement by statement, on DuckDB and PostgreSQL, over the sample data and TPC-H, on
# DuckDB over ten million visits, too: three parts of docs/benchmarks.md. It fails where a target is missed or a ratio of the page
# that was there has grown by a quarter. Some ten minutes; DATA=sample, visits or tpch is one of them, BENCH=quick takes half as
# long and writes nothing.
DATA ?= sample visits tpch
bench-ratios: $(VENV)/.dev
	-$(MAKE) --keep-going $(VENV)-tpch/.ready
	$(PY) -m benchmarks.latency.ratios $(DATA)

# What grows with history, with distinct statements and with sessions, and what must not: a part of docs/benchmarks.md. Half
# an hour, mostly to fill a ledger with a million answers and to send 100,000 statements; BENCH=quick takes a tenth of it.
bench-growth: $(VENV)/.bench
	$(PY) -m benchmarks.latency.growth

# SmartNoise SQL, PipelineDP, OpenDP, Tumult Analytics (needs Java 17) and Qrlew (needs libpq's headers) on the same rows
# at one (epsilon, delta): a part of docs/benchmarks.md. Some ten minutes; each has an environment of its own, with packages
# that are built from source, and one that cannot be built is named in the table.
PEERS := peers tumult qrlew
bench-peers: $(VENV)/.bench
	-$(MAKE) --keep-going $(PEERS:%=$(VENV)-%/.ready)
	$(PY) -m benchmarks.peers $(VENV)

# The papers' results and ours: docs/reproduction.md. The data sets lie in $DPPROXY_SHARED/data.
reproduce: $(VENV)/.bench
	$(PY) -m benchmarks.papers.figures

# The figures of IMDb and Amazon Fashion, asked in SQL on both backends: docs/reproduction-sql.md. Some 20 minutes.
reproduce-sql: $(VENV)/.bench
	$(PY) -m benchmarks.papers.figures_in_sql

# The corpora's queries on both backends: what is answered, and each one's mean relative error.
corpora: $(VENV)/.dev
	$(PY) -m benchmarks.corpora.errors

# The queries of TPC-H and TPC-DS, ClickBench's out of the file CLICKBENCH=queries.sql, then all corpora by source, on both
# backends: answered, empty, refused by code, price, error: docs/coverage.md, of which each part is kept until its next run.
CLICKBENCH ?=
coverage: $(VENV)/.dev $(VENV)-tpch/.ready $(VENV)-tpcds/.ready
	$(PY) -m benchmarks.corpora.suites --tpchgen $(VENV)-tpch/bin/tpchgen-cli --tpch $(VENV)-tpch/sources/sqlglot-*.tar.gz \
	  --tpcds $(VENV)-tpcds/bin/python $(CLICKBENCH:%=--clickbench %)
	$(PY) -m benchmarks.corpora.coverage

# Errors of business questions over the sample data, a shop of 100,000 customers and TPC-H, with fresh keys: docs/accuracy.md. KEYS
# (20) is how many, PARTS which of sample, precision, choices, dashboard, splits, newcomer, shop, tpch, times (beside caps and ranks) and peers; some minutes a key, most of them
# TPC-H's, which is left out where its generator cannot be installed.
KEYS ?= 20
PARTS ?= sample precision choices dashboard splits newcomer shop tpch times peers
accuracy: $(VENV)/.bench
	-$(MAKE) --keep-going $(VENV)-tpch/.ready $(VENV)-peers/.ready $(VENV)-tumult/.ready
	$(PY) -m benchmarks.accuracy --keys $(KEYS) --parts $(PARTS) --tpch $(VENV)-tpch --venv $(VENV)

# Partition selection, a distinct count and counts of millions of pairs in SQL on DuckDB: seconds and memory.
bench-scale: $(VENV)/.dev
	$(PY) -m benchmarks.scale.duckdb

# Every mechanism against its price, every mutant caught, then the whole path from SQL to rows on neighbouring databases: some 25
# minutes on two cores. The short version is part of the tests.
audit: $(VENV)/.dev
	$(PY) -m tests.audit

# The second half of it alone.
audit-sql: $(VENV)/.dev
	$(PY) -m tests.audit sql

# Each experiment of the audit until it is certain or its part of SECONDS is over, with the power that it reached.
audit-sequential: $(VENV)/.dev
	$(PY) -m tests.audit sequential $(SECONDS)

# Some 50 people removed, one after the other, from every accepted statement of the corpora in $DPPROXY_SHARED.
stability: $(VENV)/.dev
	$(PY) -m tests.stability corpora

# 10,000 generated statements: no crash, no refusal without a name, no broken bound.
generated: $(VENV)/.dev
	$(PY) -m tests.stability generated

# Random statements without noise, with and without one unit, for SECONDS: what moves against what the price assumes.
SECONDS ?= 1800
ENGINES ?= duckdb,postgresql
oracle: $(VENV)/.dev
	$(PY) -m tests.oracle $(SEED:%=--seed %) --seconds $(SECONDS) --engines $(ENGINES)

# Random statements by PostgreSQL and by the proxy without noise, for SECONDS: rows, groups, order, types and values have to be
# equal, or the statement is refused.
truth: $(VENV)/.dev
	$(PY) -m tests.truth $(SEED:%=--seed %) --seconds $(SECONDS) --engines $(ENGINES)

# Every statement over the largest and strangest values of each type: no row may make an engine raise.
spoiled: $(VENV)/.dev
	$(PY) -m pytest -m "slow or not slow" tests/rewriter/test_spoiled.py

# Statements recorded and replayed on neighbouring databases with what was released frozen, for SECONDS.
replay: $(VENV)/.dev
	$(PY) -m tests.replay $(SEED:%=--seed %) --seconds $(SECONDS) --engines $(ENGINES)

# Walks of an adversary who asks by the last answer, over sessions, roles, epochs, reloads and published tables, for SECONDS: what
# its accounts know against what they were charged. A finding names its walk: WALK=7.0.3 takes that one again.
adversary: $(VENV)/.dev
	$(PY) -m tests.adversary $(SEED:%=--seed %) $(WALK:%=--walk %) --seconds $(SECONDS)

# After how many steps it finds each mistake that it has to find. Some two minutes.
adversary-mutants: $(VENV)/.dev
	$(PY) -m tests.adversary --mutants --seed 1

# Forty mistakes in the code and three leaks that were there: which detector finds each, after how many seconds. MUTANTS: words
# of their names or files, all otherwise; "none" is the code as it is. DETECTORS: some of own, near, worlds, spoiled, oracle, stability,
# audit, simulator, replay, adversary, engine, all otherwise. Hours for all.
MUTANTS ?=
DETECTORS ?=
mutants: $(VENV)/.dev
	$(PY) -m tests.mutants $(MUTANTS) --detectors "$(DETECTORS)"

# The machine-checked proof of mechanisms/unit_clip.md by Coq, then its mistakes, which Coq has to refuse, and the small worlds that
# tie it to the SQL. Needs Debian's packages coq and libcoq-flocq (half a gigabyte); without them it says so. Half a minute.
proofs: $(VENV)/.dev
	@command -v coqc >/dev/null || { echo "Coq is not installed: apt-get install coq libcoq-flocq" >&2; exit 1; }
	$(PY) -m pytest -m "slow or not slow" tests/mechanisms/test_unit_clip_proof.py tests/rewriter/emit/test_small_worlds.py

# Ten minutes of generated statements that are planned alone: which operators were accepted in which, and few statements
# that have all these pairs, for the tests.
operators: $(VENV)/.dev
	$(PY) -m tests.oracle.operators

# Ten minutes of mutated statements and bytes: nothing but a refusal leaves the rewriter.
fuzz: $(VENV)/.dev
	$(PY) -m tests.rewriter.fuzz 600

# Planning from text, and from the cache, over the queries of the corpora that are answered, four keys and nine tables.
bench-planning: $(VENV)/.dev
	$(PY) -m benchmarks.latency.planning

# Our noise compared with opendp's, which has a virtual environment of its own.
bench-noise: $(VENV)-opendp/.ready
	$(VENV)-opendp/bin/python -m benchmarks.latency.noise

# 8 processes of 4 connections race for one account after the other for a minute; then a process dies before each statement.
ledger-torture: $(VENV)/.dev
	$(PY) -m tests.budget.torture

# Histories of proxy, ledger and mark in a simulated world, for SECONDS; a finding has a seed, and SEED=n runs that one again.
simulate: $(VENV)/.dev
	$(PY) -m tests.simulator --seconds $(SECONDS) $(SEED:%=--seed %)

# How soon the simulator finds each mistake that it has to find. Some two minutes.
simulate-mutants: $(VENV)/.dev
	$(PY) -m tests.simulator --mutants --seconds 120

# 10,000 histories of the simulated ledger beside PostgreSQL's, step by step. Half an hour.
simulate-ledger: $(VENV)/.dev
	$(PY) -m tests.simulator.compare 10000

# Every client through its real driver, on DuckDB and PostgreSQL: a table of clients by features. What make cannot install
# (psql, a JDK, libpostgresql-jdbc-java, node with npm, unixodbc, odbc-postgresql) is skipped with its name. Then the
# programs that sit on those drivers.
clients: $(VENV)-clients/.ready
	$(VENV)-clients/bin/python -m tests.clients
	$(VENV)-clients/bin/python -m pytest tests/clients/test_docs_clients.py tests/clients/test_python_client.py
	$(MAKE) programs

# What the users of dbt, notebooks, ORMs, Superset, pgAdmin and others do with them: a table in docs/clients.md, of which
# each row is kept until its next run. R (r-cran-dbplyr, r-cran-rpostgresql), Go (golang-go, golang-github-jackc-pgx-v4-dev)
# and node come from the system; what is not installed is skipped with its name. PROGRAM=dbt runs that one alone.
PROGRAMS := notebook superset pgadmin
programs: $(VENV)/.dev
	-$(MAKE) --keep-going $(VENV)-clients/.ready $(VENV)-dbt/.ready $(PROGRAMS:%=$(VENV)-%/.ready)
	$(PY) -m tests.programs $(PROGRAM)

# Analysts who log in by what others have made: oidc-provider of npm (needs node and npm) and slapd. What is not installed is
# skipped. Half a minute.
identity: $(VENV)/.dev
	-npm ci --silent --no-audit --no-fund --prefix tests/identity/node
	$(PY) -m pytest -m slow tests/identity

# A dashboard of six tiles over published answers, opened by 50 sessions: what is charged. Then a dbt project, with its dbt.
published: $(VENV)/.dev $(VENV)-dbt/.ready
	$(PY) -m tests.published $(CURDIR)/$(VENV)-dbt/bin/dbt

# deploy/Dockerfile built on a Debian of its own, run as docs/operating.md says, asked by psql: three to six minutes. Needs
# root, mmdebstrap, buildah, podman, podman-compose and runc, from Debian's packages, and the ports 6432 and 6480.
image: $(VENV)/.dev
	DPPROXY_REQUIRE_CLIENTS=1 $(PY) -m pytest -m slow tests/deploy

# The files of a release, in dist: wheel and sdist of the commit that is checked out, the SBOM of requirements.lock, their
# SHA-256. Wherever they are made with the locked packages, they are the same byte for byte.
dist: COMMIT = $(shell git rev-parse HEAD)
dist: NAME = dpproxy-$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' dpproxy/__init__.py)
dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
dist: $(VENV)/.dev
	rm -rf dist && mkdir -p dist/source
	umask 022 && git -c tar.umask=022 archive $(COMMIT) | tar --extract --directory dist/source
	umask 022 && $(PY) -m build --no-isolation --outdir dist dist/source >/dev/null
# What the sdist's own writer adds of time and user goes.
	cd dist && tar --extract --file $(NAME).tar.gz && tar --create --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 \
	  --group=0 --numeric-owner $(NAME) | gzip --no-name > again && mv again $(NAME).tar.gz
	cd dist && sed 's/^dynamic = .*/version = "$(NAME:dpproxy-%=%)"/' source/pyproject.toml > source/versioned.toml && \
	  PYTHONWARNINGS=ignore $(abspath $(VENV))/bin/cyclonedx-py requirements source/requirements.lock \
	    --pyproject source/versioned.toml --output-reproducible --output-file $(NAME).cdx.json
	rm -rf dist/source dist/$(NAME)
	cd dist && { echo "# commit $(COMMIT), $$($(abspath $(PY)) --version)"; sha256sum $(NAME)*; } > SHA256SUMS

# Reserve and settle, with fsync: one account and 100, embedded and by URL.
bench-ledger: $(VENV)/.dev
	$(PY) -m benchmarks.latency.ledger

# SELECT 1 through the relay and at the front itself, and 200 idle sessions: about a minute.
bench-relay: $(VENV)/.dev
	$(PY) -m benchmarks.latency.relay

# What a stop-watch tells of one person, plain and padded, on DuckDB and PostgreSQL: a part of docs/benchmarks.md. Under ten
# minutes on an idle machine; BENCH=quick takes some two, and writes nothing.
timing: $(VENV)/.dev
	$(PY) -m benchmarks.latency.timing

# What one attacker costs everybody else, attack by attack, and how long the proxy takes to end meanwhile: docs/found-by-attack.md.
# A quarter of an hour; all of it on loopback.
availability: $(VENV)/.dev
	$(PY) -m benchmarks.latency.availability

# What all backends pass, on Spark, then DP-SIPS over up to 250 million pairs by workers: docs/scale.md. Needs Java 17 and 10 GB;
# about an hour.
spark: $(VENV)-spark/.ready
	$(VENV)-spark/bin/python -m pytest -k spark tests/dpproxy/backends/test_backends.py tests/dpproxy/backends/test_spark.py tests/dpproxy/engine/test_keys.py tests/dpproxy/engine/test_gaps.py tests/dpproxy/backends/test_same_on_all.py tests/rewriter tests/benchmarks/scale/test_spark.py
	$(VENV)-spark/bin/python -m benchmarks.scale.spark

# Everything that CI runs, first the checks of `make lint`; on three workers for two cores, since many tests wait for a
# disk or a clock. With four there is a seventh more to compute.
WORKERS ?= $(shell expr 3 \* $$(nproc) / 2)
test: lint
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=20

# What to run after each change: the checks of `make lint`, where mypy looks at what has changed, and the
# unit tests, which start no process.
check: lint
	$(PY) -m pytest -n auto -m unit

# Statistical and scale runs.
test-slow: $(VENV)/.dev
	$(PY) -m pytest -m slow

# What ruff and mypy say.
lint: $(VENV)/.dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

# Lays out the code, and repairs what ruff can.
format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

# docs/cli.md from --help, the tables of docs/sql.md from the grammar and the catalogue of refusals.
reference: $(VENV)/.run
	$(PY) -m dpproxy.cli.reference > docs/cli.md
	$(PY) -m dpproxy.cli.sql_reference docs/sql.md

# Logical statements and rows of tables in each room of the code.
lines: $(VENV)/.run
	@$(PY) -m benchmarks.lines

# Resolves pyproject.toml and the .in files into the lock files again: the file, what it is made of, what it keeps to.
LOCKS := "requirements.lock pyproject.toml --extra build" \
  "requirements-dev.lock pyproject.toml --extra build --extra dev -c requirements.lock" \
  "requirements-bench.lock pyproject.toml --extra build --extra bench -c requirements-dev.lock" \
  "benchmarks/latency/opendp.lock benchmarks/latency/opendp.in -c requirements.lock" \
  "benchmarks/scale/spark.lock benchmarks/scale/spark.in -c requirements-bench.lock" \
  "benchmarks/corpora/tpch.lock benchmarks/corpora/tpch.in -c requirements.lock" \
  "benchmarks/corpora/tpcds.lock benchmarks/corpora/tpcds.in" \
  "tests/clients/clients.lock tests/clients/clients.in -c requirements-dev.lock" \
  "tests/published/dbt.lock tests/published/dbt.in --no-strip-extras" \
  $(foreach program,$(PROGRAMS),"tests/programs/$(program).lock tests/programs/$(program).in") \
  $(foreach peer,$(PEERS),"benchmarks/peers/$(peer).lock benchmarks/peers/$(peer).in")
lock:
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet $(PIP_TOOLS)
	for one in $(LOCKS); do \
	  CUSTOM_COMPILE_COMMAND="make lock" $(VENV)-lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --upgrade \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file $$one || exit 1; \
	done
	rm -rf $(VENV)-lock

# Removes environments, caches and the sample database.
clean:
	rm -rf .bench $(VENV) $(VENV)-opendp $(VENV)-spark $(VENV)-tpch $(VENV)-tpcds $(VENV)-clients $(VENV)-dbt $(PROGRAMS:%=$(VENV)-%) $(PEERS:%=$(VENV)-%) tests/clients/node/node_modules tests/identity/node/node_modules .mypy_cache .ruff_cache .pytest_cache sample_data/.dpproxy

$(VENV)/.run: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) $(INSTALL) $(WHEELS) -r requirements.lock
	$(PY) -m pip install $(QUIET) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev $(VENV)/.bench: $(VENV)/.%: $(VENV)/.run requirements-%.lock
	$(PY) $(INSTALL) $(WHEELS) -r requirements-$*.lock
	@touch $@

# Every other environment is of the lock files that it is made of, and has its own steps behind them.
$(VENV)-opendp/.ready: requirements.lock benchmarks/latency/opendp.lock
$(VENV)-dbt/.ready: tests/published/dbt.lock
$(foreach program,$(PROGRAMS),$(eval $(VENV)-$(program)/.ready: tests/programs/$(program).lock))
# Superset, and some packages that pgAdmin needs, come as source alone.
$(VENV)-superset/.ready $(VENV)-pgadmin/.ready: WHEELS :=
$(VENV)-clients/.ready: requirements.lock tests/clients/clients.lock tests/clients/node/package-lock.json
$(VENV)-clients/.ready: AFTER = if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund --prefix tests/clients/node; fi
# sqlglot's source package holds TPC-H's queries.
$(VENV)-tpch/.ready: benchmarks/corpora/tpch.lock
$(VENV)-tpch/.ready: AFTER = $(@D)/bin/python -m pip download $(QUIET) --no-deps --no-build-isolation --no-binary sqlglot \
  --require-hashes --dest $(@D)/sources -r $<
# The extension is for an older duckdb than ours.
$(VENV)-tpcds/.ready: benchmarks/corpora/tpcds.lock
# pyspark comes as source alone; it holds Spark itself.
$(VENV)-spark/.ready: requirements-dev.lock
$(VENV)-spark/.ready: AFTER = $(@D)/bin/python $(INSTALL) $(WHEELS) --no-binary pyspark --no-build-isolation \
  -r requirements-bench.lock -r benchmarks/scale/spark.lock
$(VENV)-spark/.ready: | requirements-bench.lock benchmarks/scale/spark.lock
# Some of the peers' packages are built from source.
$(foreach peer,$(PEERS),$(eval $(VENV)-$(peer)/.ready: benchmarks/peers/$(peer).lock))
$(PEERS:%=$(VENV)-%/.ready): WHEELS :=

$(VENV)-%/.ready:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(INSTALL) $(WHEELS) $(patsubst %,-r %,$(filter %.lock,$^))
	$(AFTER)
	@touch $@
