// Does one feature through node-postgres and prints rows: features.js PORT USER PASSWORD DATABASE FEATURE ARGUMENTS...
"use strict";
const { Client } = require("pg");
const Cursor = require("pg-cursor");

const [port, user, password, database, feature, ...rest] = process.argv.slice(2);
const asText = { getTypeParser: () => (value) => value };

function print(values) {
  process.stdout.write(values.map((v) => (v === null ? "" : String(v))).join("\x1f") + "\x1e\n");
}

async function rows(client, text, values) {
  const name = values ? "asked" : undefined;
  const found = await client.query({ text, values, name, rowMode: "array", types: asText });
  found.rows.forEach(print);
}

async function refuse(client, text) {
  try {
    await client.query(text);
  } catch (error) {
    print([error.code]);
  }
}

const FEATURES = {
  async rows(client) {
    for (const text of rest) await rows(client, text);
  },
  async parameters(client) {
    for (const number of rest.slice(1)) await rows(client, rest[0], [number]);
  },
  async arrays(client) {
    await rows(client, rest[0], [rest.slice(1)]);
  },
  async portions(client) {
    const cursor = client.query(new Cursor(rest[0], [], { rowMode: "array" }));
    for (let some = await cursor.read(7); some.length; some = await cursor.read(7)) some.forEach(print);
    await cursor.close();
  },
  async refused(client) {
    await refuse(client, rest[0]);
    await rows(client, rest[1]);
  },
  async transaction(client) {
    await client.query("BEGIN");
    await rows(client, rest[0]);
    await client.query("SAVEPOINT here");
    await refuse(client, rest[1]);
    await client.query("ROLLBACK TO SAVEPOINT here");
    await rows(client, rest[2]);
    await client.query("COMMIT");
  },
};

async function main() {
  const client = new Client({
    host: "127.0.0.1", port, user, password, database, ssl: { rejectUnauthorized: false },
  });
  await client.connect();
  await FEATURES[feature](client);
  await client.end();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
