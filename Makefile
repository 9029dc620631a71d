# distlock: what a developer types. `make` alone prints this list.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help test short check nightly slow times race stores chaos proof figures soak bench lint docs man mutants gremlins cover models api tools servers fuzz matrix clean

# Bounds that a developer may change: make chaos SEEDS=500, make fuzz FUZZTIME=10m.
SEEDS    ?= 20000
FUZZTIME ?= 30s
BENCH    ?= $(if $(QUICK),all,core)
QUICK    ?=
SEED     ?= 1
STORE    ?=
TIME     ?= 30m

# The file to which long runs write their figures; empty: none. docs/guarantees.md is made from the
# one of make figures.
FIGURES  ?=
figures: FIGURES := $(or $(FIGURES),internal/promise/nightly.json)

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: ## install the servers where that may be done, and run all tests once: some minutes
	@scripts/check prepare test

short: ## the tests alone, with nothing installed (suites without their server are skipped)
	go test ./...

check: ## what CI runs after make test: format, vet, lint, race, and a share of chaos, proof and mutants
	@SHARE=1 scripts/check tools servers modules format vet lint side race chaos proof mutants

nightly: ## everything, whole: all mutants, long chaos, soak, fuzz, other versions of servers, figures; hours
	@WHOLE=1 SEED=$(SEED) TIME=$(TIME) FUZZTIME=$(FUZZTIME) scripts/check tools servers test grown build race chaos compare promises mutants fuzz matrix costs figures soak

slow: ## the 20 slowest tests of the last run
	@scripts/slow

times: ## record how long each package took in the last run; make nightly reports those that grow
	@scripts/slow --record

race: ## the tests of every package under the race detector, in random order
	@WHOLE=1 scripts/check race

stores: ## install the servers, then run every store's suite against them
	@scripts/check prepare
	@DISTLOCK_ETCD=$${DISTLOCK_ETCD:-$$(scripts/tools path etcd)} go test -count=1 ./store/... ./internal/testenv/...

chaos: ## seeded fault runs in virtual time, checked by their history: SEEDS=20000
	@SEEDS=$(SEEDS) scripts/check chaos

proof: ## break real servers, links and processes for some minutes, and check what came of it
	@scripts/check servers proof

figures: ## the figures of docs/guarantees.md, for every store, in half an hour: SEED=1; they are written down
	go test -count=1 -v -timeout=0 -run '^TestNightly$$' ./tests/proof -args -nightly -store=$(STORE) -seed=$(SEED) "-record=$(abspath $(FIGURES))"

soak: ## the faults of make proof for long: STORE=redis TIME=30m SEED=1; without a STORE all of them; FIGURES=FILE keeps the figures
	go test -count=1 -v -timeout=0 -run '^TestSoak$$' ./tests/proof -args -soak=$(TIME) -store=$(STORE) -seed=$(SEED) "-record=$(abspath $(FIGURES))"

bench: ## benchmarks with other libraries: BENCH=redis, or another name; BENCH=all writes docs/benchmarks.md; QUICK=1 sees that all run
	@go -C bench run . $(if $(QUICK),-quick) $(BENCH)

lint: ## gofmt, vet for three systems, staticcheck, golangci-lint
	@scripts/check tools format vet lint

docs: ## write the pages of promises, and check all: links, package and doc comments, words that do not belong
	go test -count=1 ./internal/promise -args -update
	go test -count=1 ./internal/docscheck

man: ## write the man pages of the command in docs/man
	go test -count=1 -run '^TestMan$$' ./cmd/distlock -args -update

mutants: ## break the code line by line; every breakage must be caught by a named test
	@scripts/mutants

gremlins: ## change the core mechanically and list what no test notices: an hour, for the night
	@scripts/gremlins

cover: ## how much of the code the tests run; fails below 95 % of the core and 85 % of all
	@scripts/cover

models: ## search the models of the protocol with wide bounds, for minutes
	go test -count=1 -v -timeout=60m -run '^TestModels$$' ./tests/models -args -wide

api: ## write the public API down, in internal/apicheck/testdata, and generate the code of the lock server's API
	go test -count=1 -run '^TestGenerated$$' ./api/... -args -update
	go test -count=1 -run '^TestAPI$$' ./internal/apicheck -args -update

tools: ## build the pinned tools, and etcd for the tests, into the cache of the user
	@scripts/tools

servers: ## install all server programs of the tests (Debian; needs root)
	@scripts/servers --all

fuzz: ## run every fuzz target for FUZZTIME=30s
	@scripts/fuzz $(FUZZTIME)

matrix: ## the stores' suites on other versions of Redis, Valkey and PostgreSQL
	@scripts/matrix

clean: ## remove what was built here
	rm -rf .tools .work bin dist
	find . -name '*.test' -type f -not -path './.git/*' -delete
