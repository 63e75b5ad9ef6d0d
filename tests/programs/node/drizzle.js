// Drizzle: its query builder over node-postgres and over postgres.js.
"use strict";
const { Pool } = require("pg");
const { drizzle } = require("drizzle-orm/node-postgres");
const { drizzle: overPostgres } = require("drizzle-orm/postgres-js");
const { and, avg, between, count, countDistinct, desc, eq, gt, inArray, max, min, sql, sum } = require("drizzle-orm");
const { bigint, doublePrecision, integer, numeric, pgSchema, text, timestamp, uuid } = require("drizzle-orm/pg-core");
const { action, login, near, run, same } = require("./actions.js");

const { user: username, ...rest } = login;
const db = drizzle(new Pool(login));
const other = overPostgres(require("postgres")({ ...rest, username, onnotice: () => {} }));
const app = pgSchema("app");
const users = app.table("users", {
  id: bigint("user_id", { mode: "number" }).primaryKey(), country: text("country"), age: integer("age"), balance: numeric("balance"),
});
const articles = app.table("articles", { id: integer("article_id").primaryKey(), title: text("title") });
const events = app.table("events", {
  id: uuid("event_id").primaryKey(), user: bigint("user_id", { mode: "number" }), article: integer("article_id"),
  ts: timestamp("ts"), kind: text("kind"), amount: doublePrecision("amount"),
});

action("count", async () => near((await db.select({ n: count() }).from(users))[0].n, 4000));
action("$count", async () => near(await db.$count(users, gt(users.age, 57)), 2000));
action("where with and, between, eq", async () => {
  const where = and(between(users.age, 18, 57), eq(users.country, "DE"));
  near((await db.select({ n: count() }).from(users).where(where))[0].n, 500);
});
action("inArray", async () => {
  near((await db.select({ n: count() }).from(users).where(inArray(users.country, ["DE", "US"])))[0].n, 2000);
});
action("inArray over postgres.js", async () => {
  near((await other.select({ n: count() }).from(users).where(inArray(users.country, ["DE", "US"])))[0].n, 2000);
});
action("group by, having, order by", async () => {
  const rows = await db.select({ country: users.country, n: count() }).from(users).groupBy(users.country)
    .having(gt(count(), 500)).orderBy(desc(count()));
  same(rows.length, 4);
});
action("sum, avg, min, max", async () => {
  const [row] = await db.select({ total: sum(users.age), mean: avg(users.age), low: min(users.age), high: max(users.age) }).from(users);
  near(row.mean, 57.5);
  near(row.high, 97);
});
action("countDistinct over a join", async () => {
  const query = db.select({ n: countDistinct(events.user) }).from(events).innerJoin(users, eq(users.id, events.user));
  near((await query.where(eq(users.country, "DE")))[0].n, 1000);
});
action("a subquery", async () => {
  const counted = db.select({ country: users.country, n: count().as("n") }).from(users).groupBy(users.country).as("counted");
  near((await db.select({ most: max(counted.n) }).from(counted))[0].most, 1000);
});
action("a CTE", async () => {
  const counted = db.$with("counted").as(db.select({ country: users.country, n: count().as("n") }).from(users).groupBy(users.country));
  same((await db.with(counted).select().from(counted)).length, 4);
});
action("sql templates", async () => {
  const month = sql`date_trunc('month', ${events.ts})`;
  same((await db.select({ month: month.as("month"), n: count() }).from(events).groupBy(sql`1`).orderBy(sql`1`)).length, 12);
});
action("a prepared query with placeholders", async () => {
  const query = db.select({ n: count() }).from(users).where(gt(users.age, sql.placeholder("age"))).prepare("older");
  near((await query.execute({ age: 57 }))[0].n, 2000);
});
action("a transaction with a nested one", async () => {
  await db.transaction((outer) => outer.transaction(async (inner) => near(await inner.$count(users), 4000)));
});
action("a public table", async () => same((await db.select().from(articles).where(eq(articles.id, 7)))[0].title, "t7"));
action("rows of a table", () => db.select().from(users).limit(5));
action("insert", () => db.insert(articles).values({ id: 99, title: "new" }));

run("drizzle-orm", "pg", "postgres");
