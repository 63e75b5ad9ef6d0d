// postgres.js: its tagged templates, lists, cursors and transactions.
"use strict";
const postgres = require("postgres");
const { action, login, near, run, same } = require("./actions.js");

const { user: username, ...rest } = login;
const sql = postgres({ ...rest, username, onnotice: () => {}, max: 3 });
const COUNTRIES = ["DE", "FR", "IN", "US"];

action("a query", async () => {
  same((await sql`SELECT country, COUNT(*) AS n FROM app.users GROUP BY country ORDER BY 1`).map((row) => row.country), COUNTRIES);
});
action("parameters", async () => near((await sql`SELECT COUNT(*) AS n FROM app.users WHERE age > ${57}`)[0].n, 2000));
action("IN of a list", async () => {
  near((await sql`SELECT COUNT(*) AS n FROM app.users WHERE country IN ${sql(["DE", "US"])}`)[0].n, 2000);
});
action("= ANY of an array", async () => {
  near((await sql`SELECT COUNT(*) AS n FROM app.users WHERE country = ANY(${["DE", "US"]})`)[0].n, 2000);
});
action("fragments", async () => {
  const old = sql`age > ${57}`;
  near((await sql`SELECT COUNT(*) AS n FROM ${sql("app.users")} WHERE ${old} AND ${sql("country")} = ${"DE"}`)[0].n, 500);
});
action("columns by name", async () => {
  same((await sql`SELECT ${sql(["article_id", "title"])} FROM app.articles WHERE article_id = ${7}`)[0].title, "t7");
});
action("describe", async () => {
  const found = await sql`SELECT country, COUNT(*) AS n FROM app.users WHERE age > ${57} GROUP BY country`.describe();
  same(found.columns.map((column) => column.name), ["country", "n"]);
});
action("a cursor", async () => {
  let rows = 0;
  for await (const some of sql`SELECT age, COUNT(*) AS n FROM app.users GROUP BY age`.cursor(7)) rows += some.length;
  same(rows, 80);
});
action("forEach", async () => {
  let total = 0;
  await sql`SELECT age, COUNT(*) AS n FROM app.users GROUP BY age`.forEach((row) => { total += Number(row.n); });
  near(total, 4000);
});
action("a transaction with a savepoint", async () => {
  await sql.begin(async (transaction) => {
    await transaction`SELECT COUNT(*) AS n FROM app.users`;
    await transaction.savepoint((inner) => inner`SELECT * FROM app.users`).catch(() => {});
    near((await transaction`SELECT COUNT(*) AS n FROM app.users`)[0].n, 4000);
  });
});
action("a pipeline", async () => {
  const found = await Promise.all([1, 2, 3, 4].map((n) => sql`SELECT COUNT(*) AS n FROM app.users WHERE age > ${17 + n}`));
  same(found.length, 4);
});
action("simple and unsafe", async () => {
  same((await sql.unsafe("SELECT 1 AS one; SELECT 2 AS two").simple()).length, 2);
  near((await sql.unsafe("SELECT COUNT(*) AS n FROM app.users WHERE country IN ($1,$2)", ["DE", "FR"]))[0].n, 2000);
});
action("raw, values and dates", async () => {
  const rows = await sql`SELECT DATE_TRUNC('month', ts) AS month, COUNT(*) FROM app.events GROUP BY 1 ORDER BY 1`.values();
  same(rows.length, 12);
  if (!(rows[0][0] instanceof Date)) throw new Error(`${rows[0][0]} is no date`);
});
action("copy to", async () => {
  const stream = await sql`COPY (SELECT country, COUNT(*) FROM app.users GROUP BY country) TO STDOUT`.readable();
  let text = "";
  for await (const part of stream) text += part;
  same(text.trim().split("\n").length, 4);
});
action("rows of a table", () => sql`SELECT * FROM app.users LIMIT 5`);
action("insert", () => sql`INSERT INTO app.articles ${sql({ article_id: 99, title: "new" })}`);

run("postgres");
