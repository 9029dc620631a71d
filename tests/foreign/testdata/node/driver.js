// node-redlock as the test tells it: see doc.go. Arguments: the package, host and port of Redis.
"use strict";

const readline = require("readline");
const Redis = require("ioredis");

const [, , name, host, port] = process.argv;
const loaded = require(name);
const Redlock = loaded.default || loaded;

const redis = new Redis({ host, port: Number(port) });
const locks = new Map();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// attempt makes a call of redlock. A refusal is false; redlock tells of all else that goes wrong by an event.
async function attempt(tries, pause, call) {
  const redlock = new Redlock([redis], { retryCount: tries - 1, retryDelay: pause, retryJitter: 0 });
  let trouble = null;
  const note = (e) => {
    if (e.name !== "ResourceLockedError") trouble = e;
  };
  redlock.on("error", note); // version 5
  redlock.on("clientError", note); // version 4
  try {
    return (await call(redlock)) || true;
  } catch (e) {
    if (trouble) throw trouble;
    if (e.name !== "LockError" && e.name !== "ExecutionError") throw e;
    return false;
  }
}

async function take(key, ttl, tries = 1, pause = 0) {
  const lock = await attempt(tries, pause, (r) => r.acquire([key], ttl));
  if (!lock) return "no";
  locks.set(key, lock);
  return "yes";
}

const verbs = {
  take: (key, ttl) => take(key, Number(ttl)),

  await: (key, ttl, pause, limit) => take(key, Number(ttl), Math.ceil(limit / pause), Number(pause)),

  async hammer(key, ttl, limit) {
    const end = Date.now() + Number(limit);
    let tries = 0;
    while (Date.now() < end) {
      tries++;
      if ((await take(key, Number(ttl))) === "yes") return `${await verbs.release(key)} ${tries}`;
    }
    return `no ${tries}`;
  },

  async renew(key, ttl) {
    const lock = locks.get(key);
    // Redlock refuses by its own clock what is late. Here the server is to refuse it.
    lock.expiration = Math.max(lock.expiration, Date.now() + 1000);
    const renewed = await attempt(1, 0, (r) => r.extend(lock, Number(ttl)));
    if (!renewed) return "no";
    locks.set(key, renewed);
    return "yes";
  },

  async release(key) {
    return (await attempt(1, 0, (r) => r.release(locks.get(key)))) ? "yes" : "no";
  },

  async count(key, ttl, counter, span) {
    const end = Date.now() + Number(span);
    let rounds = 0;
    while (Date.now() < end) {
      if ((await verbs.await(key, ttl, 5, span)) === "no") continue;
      const n = Number(await redis.get(counter));
      await sleep(1);
      await redis.set(counter, n + 1);
      if ((await verbs.release(key)) !== "yes") return "error the lock was lost while it was held";
      rounds++;
      await sleep(5 + Math.random() * 10);
    }
    return `did ${rounds}`;
  },
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, ...rest] = line.split(" ");
    let answer;
    try {
      answer = await verbs[verb](...rest);
    } catch (e) {
      answer = "error " + String(e).replace(/\s+/g, " ");
    }
    process.stdout.write(answer + "\n");
  }
  process.exit(0);
})();
