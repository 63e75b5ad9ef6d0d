// What came of each action of a program, written to a file: see ../actions.py.
"use strict";
const fs = require("fs");
const path = require("path");

const [url, notes] = process.argv.slice(2);
const { hostname: host, port, username: user, password, pathname } = new URL(url);
const declared = [];

function near(found, wanted) {
  if (Math.abs(Number(found) - wanted) > 100) throw new Error(`${found} is not ${wanted}`);
}

function same(found, wanted) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
}

function version(name) {
  const folder = process.env.NODE_PATH;
  return JSON.parse(fs.readFileSync(path.join(folder, name, "package.json"))).version;
}

async function run(...packages) {
  const note = (line) => fs.appendFileSync(notes, JSON.stringify(line) + "\n");
  note({ versions: Object.fromEntries(packages.map((name) => [name, version(name)])) });
  for (const [name, act] of declared) {
    let error = null;
    try {
      await act();
    } catch (raised) {
      error = `${raised.code || raised.parent?.code || raised.cause?.code}: ${raised.message}`;
    }
    note({ action: name, error });
  }
  process.exit();
}

module.exports = {
  action: (name, act) => declared.push([name, act]),
  login: { host, port: Number(port), user, password, database: pathname.slice(1), ssl: { rejectUnauthorized: false } },
  near,
  run,
  same,
};
