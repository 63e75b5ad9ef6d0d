// Knex: its query builder.
"use strict";
const { action, login, near, run, same } = require("./actions.js");
const knex = require("knex")({ client: "pg", connection: login });

const users = () => knex("app.users");

action("count", async () => near((await users().count())[0].count, 4000));
action("where", async () => near((await users().where("age", ">", 57).andWhere({ country: "DE" }).count())[0].count, 500));
action("whereIn", async () => near((await users().whereIn("country", ["DE", "US"]).count())[0].count, 2000));
action("whereBetween", async () => near((await users().whereBetween("age", [18, 57]).count())[0].count, 2000));
action("whereNull", async () => near((await users().whereNull("country").count())[0].count, 0));
action("countDistinct", async () => near((await users().countDistinct("user_id as n"))[0].n, 4000));
action("group by, having, order by", async () => {
  same((await users().select("country").count("* as n").groupBy("country").havingRaw("count(*) > ?", [500]).orderBy("n", "desc")).length, 4);
});
action("sum and avg", async () => near((await users().avg("age as mean").sum("age as total"))[0].mean, 57.5));
action("join", async () => {
  const query = knex("app.events as e").join("app.users as u", "u.user_id", "e.user_id").where("u.country", "DE");
  near((await query.countDistinct("e.user_id as n"))[0].n, 1000);
});
action("with", async () => {
  const counted = users().select("country").count("* as n").groupBy("country");
  same((await knex.with("counted", counted).select("*").from("counted")).length, 4);
});
action("raw with bindings", async () => {
  near((await knex.raw("SELECT COUNT(*) AS n FROM app.users WHERE country = ANY(?) AND age > ?", [["DE", "US"], 57])).rows[0].n, 1000);
});
action("a transaction", () => knex.transaction(async (transaction) => near((await transaction("app.users").count())[0].count, 4000)));
action("hasTable and columnInfo", async () => {
  same(await knex.schema.withSchema("app").hasTable("users"), true);
  same(Object.keys(await knex("users").withSchema("app").columnInfo()).length, 5);
});
action("a public table", async () => same((await knex("app.articles").where({ article_id: 7 }).first()).title, "t7"));
action("rows of a table", () => users().select("*").limit(5));
action("createTable", () => knex.schema.createTable("mine", (table) => table.increments()));

run("knex", "pg");
