// Sequelize: models over the tables, aggregates, groups, lists and raw queries.
"use strict";
const { DataTypes, Op, QueryTypes, Sequelize } = require("sequelize");
const { action, login, near, run, same } = require("./actions.js");

const db = new Sequelize(login.database, login.user, login.password, {
  host: login.host, port: login.port, dialect: "postgres", logging: false, dialectOptions: { ssl: login.ssl },
});
const options = { schema: "app", timestamps: false };
const User = db.define("user", {
  user_id: { type: DataTypes.BIGINT, primaryKey: true }, country: DataTypes.STRING, age: DataTypes.INTEGER, balance: DataTypes.DECIMAL,
}, { ...options, tableName: "users" });
const Article = db.define("article", {
  article_id: { type: DataTypes.INTEGER, primaryKey: true }, title: DataTypes.STRING,
}, { ...options, tableName: "articles" });
const Event = db.define("event", {
  event_id: { type: DataTypes.UUID, primaryKey: true }, kind: DataTypes.STRING, ts: DataTypes.DATE, amount: DataTypes.DOUBLE,
}, { ...options, tableName: "events" });
Event.belongsTo(User, { foreignKey: "user_id" });

action("authenticate", () => db.authenticate());
action("showAllSchemas and describe", async () => {
  const columns = await db.getQueryInterface().describeTable({ tableName: "users", schema: "app" });
  same(Object.keys(columns), ["user_id", "country", "age", "balance", "mood"]);
});
action("count", async () => near(await User.count(), 4000));
action("count with where", async () => near(await User.count({ where: { age: { [Op.between]: [18, 57] } } }), 2000));
action("count with Op.in", async () => near(await User.count({ where: { country: { [Op.in]: ["DE", "US"] } } }), 2000));
action("count of different values", async () => near(await User.count({ distinct: true, col: "user_id" }), 4000));
action("count by group", async () => same((await User.count({ group: ["country"] })).length, 4));
action("sum and average", async () => {
  near((await User.sum("age")) / 4000, 57.5);
  near(await User.aggregate("age", "avg", { dataType: "float" }), 57.5);
});
action("min and max", async () => {
  near(await User.min("age"), 18);
  near(await User.max("age"), 97);
});
action("findAll with group, having and order", async () => {
  const rows = await User.findAll({
    attributes: ["country", [db.fn("COUNT", db.col("*")), "n"]],
    group: ["country"],
    having: db.where(db.fn("COUNT", db.col("*")), Op.gt, 500),
    order: [[db.literal("n"), "DESC"]],
    raw: true,
  });
  same(rows.length, 4);
});
action("include", async () => {
  const rows = await Event.findAll({
    attributes: [[db.fn("COUNT", db.fn("DISTINCT", db.col("event.user_id"))), "n"]],
    include: [{ model: User, attributes: [], where: { country: "DE" } }],
    raw: true,
  });
  near(rows[0].n, 1000);
});
action("date_trunc", async () => {
  const month = db.fn("date_trunc", "month", db.col("ts"));
  same((await Event.findAll({ attributes: [[month, "month"], [db.fn("COUNT", "*"), "n"]], group: [db.literal("month")], raw: true })).length, 12);
});
action("replacements and bind", async () => {
  const asked = (text, more) => db.query(text, { type: QueryTypes.SELECT, ...more });
  near((await asked("SELECT COUNT(*) AS n FROM app.users WHERE country IN (:some)", { replacements: { some: ["DE", "US"] } }))[0].n, 2000);
  near((await asked("SELECT COUNT(*) AS n FROM app.users WHERE age > $age", { bind: { age: 57 } }))[0].n, 2000);
});
action("a transaction", () => db.transaction(async (transaction) => near(await User.count({ transaction }), 4000)));
action("findByPk of a public table", async () => same((await Article.findByPk(7)).title, "t7"));
action("findOne of a private table", () => User.findOne());
action("sync", () => db.sync({ alter: true }));

run("sequelize", "pg");
