"""Runs the commands of the test with the Lock of redis-py: see doc.go. Arguments: host and port of Redis."""

import random
import sys
import time

import redis
from redis.exceptions import LockError


class Driver:
    def __init__(self, host, port):
        self.redis = redis.Redis(host=host, port=int(port))
        self.locks = {}

    def new(self, key, ttl, pause=0):
        # A TTL of 0 is a lock without expiry: the default of redis-py.
        return self.redis.lock(key, timeout=ttl / 1000 or None, sleep=pause / 1000, thread_local=False)

    def take(self, key, ttl):
        lock = self.new(key, ttl)
        if not lock.acquire(blocking=False):
            return "no"
        self.locks[key] = lock
        return "yes"

    def wait(self, key, ttl, pause, limit):
        lock = self.new(key, ttl, pause)
        if not lock.acquire(blocking_timeout=limit / 1000):
            return "no"
        self.locks[key] = lock
        return "yes"

    def hammer(self, key, ttl, limit):
        tries, end = 0, time.monotonic() + limit / 1000
        while time.monotonic() < end:
            tries += 1
            if self.take(key, ttl) == "yes":
                return f"{self.release(key)} {tries}"
        return f"no {tries}"

    def renew(self, key, ttl):
        try:
            return "yes" if self.locks[key].extend(ttl / 1000, replace_ttl=True) else "no"
        except LockError:
            return "no"

    def release(self, key):
        try:
            self.locks[key].release()
            return "yes"
        except LockError:
            return "no"

    def count(self, key, ttl, counter, span):
        rounds, end = 0, time.monotonic() + span / 1000
        while time.monotonic() < end:
            if self.wait(key, ttl, 5, span) == "no":
                continue
            n = int(self.redis.get(counter) or 0)
            time.sleep(0.001)
            self.redis.set(counter, n + 1)
            if self.release(key) != "yes":
                return "error the lock was lost while it was held"
            rounds += 1
            time.sleep(random.uniform(0.005, 0.015))
        return f"did {rounds}"

    def obey(self, line):
        verb, key, *rest = line.split()
        if verb == "count":
            ttl, counter, span = rest
            return self.count(key, int(ttl), counter, int(span))
        does = {"take": self.take, "await": self.wait, "hammer": self.hammer, "renew": self.renew, "release": self.release}
        return does[verb](key, *map(int, rest))


driver = Driver(*sys.argv[1:])
for line in sys.stdin:
    try:
        answer = driver.obey(line)
    except Exception as e:
        answer = "error " + repr(e)
    print(answer, flush=True)
