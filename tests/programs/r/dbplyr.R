# R: RPostgreSQL through DBI, and dplyr's verbs as SQL. Notes what came of each action in a file: see ../actions.py.
suppressMessages({
  library(DBI)
  library(dplyr)
  library(dbplyr)
})

arguments <- commandArgs(trailingOnly = TRUE)
place <- regmatches(arguments[1], regexec("//(.*):(.*)@(.*):(.*)/([^?]*)", arguments[1]))[[1]]
# Its driver has no argument for TLS: libpq takes it from the environment.
Sys.setenv(PGSSLMODE = "require")
connection <- NULL
declared <- list()

quoted <- function(text) encodeString(enc2utf8(as.character(text)), quote = '"')
note <- function(...) cat(paste0(..., "\n"), file = arguments[2], append = TRUE)
action <- function(name, act) declared[[name]] <<- act
near <- function(found, wanted) stopifnot(abs(as.numeric(found) - wanted) < 100)
from <- function(table) tbl(connection, in_schema("app", table))

action("dbConnect", function() {
  connection <<- dbConnect(RPostgreSQL::PostgreSQL(),
    user = place[2], password = place[3], host = place[4], port = as.integer(place[5]), dbname = place[6]
  )
})
action("dbListTables and dbExistsTable", function() {
  stopifnot(c("users", "articles") %in% dbListTables(connection), dbExistsTable(connection, c("app", "users")))
})
action("dbListFields", function() stopifnot(length(dbListFields(connection, c("app", "users"))) == 5))
action("dbGetQuery", function() {
  stopifnot(nrow(dbGetQuery(connection, "SELECT country, COUNT(*) AS n FROM app.users GROUP BY country")) == 4)
})
action("dbGetQuery with parameters", function() {
  near(dbGetQuery(connection, "SELECT COUNT(*) AS n FROM app.users WHERE age > $1", list(57))$n, 2000)
})
action("dbSendQuery and fetch", function() {
  result <- dbSendQuery(connection, "SELECT age, COUNT(*) AS n FROM app.users GROUP BY age")
  rows <- 0
  while (nrow(some <- fetch(result, 7)) > 0) rows <- rows + nrow(some)
  dbClearResult(result)
  stopifnot(rows == 80)
})
action("a transaction", function() {
  dbBegin(connection)
  near(dbGetQuery(connection, "SELECT COUNT(*) AS n FROM app.users")$n, 4000)
  dbCommit(connection)
})
action("tbl and its columns", function() stopifnot("age" %in% colnames(from("users"))))
action("count", function() stopifnot(nrow(from("users") %>% count(country) %>% collect()) == 4))
action("filter and tally", function() {
  near((from("users") %>% filter(age > 57, country %in% c("DE", "US")) %>% tally() %>% collect())$n, 1000)
})
action("group_by and summarise", function() {
  found <- from("users") %>%
    group_by(country) %>%
    summarise(n = n(), mean_age = mean(age, na.rm = TRUE), oldest = max(age, na.rm = TRUE)) %>%
    arrange(country) %>%
    collect()
  near(found$mean_age[1], 57)
})
action("mutate, case_when and cut", function() {
  found <- from("users") %>%
    mutate(old = case_when(age >= 58 ~ "old", TRUE ~ "young")) %>%
    count(old) %>%
    collect()
  stopifnot(nrow(found) == 2)
})
action("inner_join and n_distinct", function() {
  found <- from("events") %>%
    inner_join(from("users"), by = "user_id") %>%
    filter(country == "DE") %>%
    summarise(n = n_distinct(user_id)) %>%
    collect()
  near(found$n, 1000)
})
action("quantiles", function() {
  near((from("users") %>% summarise(m = median(age, na.rm = TRUE)) %>% collect())$m, 57)
})
action("months by sql()", function() {
  found <- from("events") %>%
    mutate(month = sql("date_trunc('month', ts)")) %>%
    count(month) %>%
    collect()
  stopifnot(nrow(found) == 12)
})
action("a public table", function() stopifnot(nrow(from("articles") %>% head(7) %>% collect()) == 7))
action("show_query and explain", function() {
  capture.output(from("users") %>% count(country) %>% show_query())
  capture.output(from("users") %>% count(country) %>% explain())
})
action("head of a private table", function() from("users") %>% head(5) %>% collect())
action("compute", function() from("users") %>% count(country) %>% compute())
action("dbWriteTable", function() stopifnot(dbWriteTable(connection, "mine", data.frame(a = 1))))

version <- function(package) paste0(quoted(package), ": ", quoted(packageVersion(package)))
note('{"versions": {', paste(sapply(c("dbplyr", "dplyr", "RPostgreSQL"), version), collapse = ", "), "}}")
for (name in names(declared)) {
  error <- tryCatch(
    {
      suppressWarnings(declared[[name]]())
      "null"
    },
    error = function(raised) quoted(conditionMessage(raised))
  )
  note('{"action": ', quoted(name), ', "error": ', error, "}")
}
