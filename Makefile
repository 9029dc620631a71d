# distlock: what a developer types. `make` alone prints this list.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help test short race stores chaos proof soak nightly bench lint docs man mutants gremlins cover models api tools servers fuzz clean

# Bounds that a developer may change: make chaos SEEDS=500, make fuzz FUZZTIME=10m.
SEEDS    ?= 20000
FUZZTIME ?= 30s
BENCH    ?= core
SEED     ?= 1
STORE    ?=
TIME     ?= 30m

# The file to which long runs write their figures; empty: none. docs/guarantees.md is made from the one of make nightly.
FIGURES  ?=
nightly: FIGURES := $(or $(FIGURES),internal/promise/nightly.json)

# has runs a command if a path is there, and says so if it is not.
has = if [[ -e $(1) ]]; then $(2); else echo "$@: nothing to do yet, there is no $(1)"; fi

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: ## install what is missing, then run every check: the one command before a change is offered
	@scripts/check

short: ## the tests alone, with nothing installed (suites without their server are skipped)
	go test ./...

race: ## the tests under the race detector, in random order
	@scripts/check race

stores: ## install the servers, then run every store's suite against them
	@scripts/check tools servers
	@DISTLOCK_ETCD=$${DISTLOCK_ETCD:-$$(scripts/tools path etcd)} go test -count=1 ./store/... ./internal/testenv/...

chaos: ## seeded fault runs in virtual time, judged by their history: SEEDS=20000
	@SEEDS=$(SEEDS) scripts/check chaos

proof: ## break real servers, links and processes for some minutes, and judge what came of it
	@scripts/check tools servers proof

soak: ## the same for long: STORE=redis TIME=30m SEED=1; without a STORE all of them; FIGURES=FILE keeps the figures
	go test -count=1 -v -timeout=0 -run '^TestSoak$$' ./tests/proof -args -soak=$(TIME) -store=$(STORE) -seed=$(SEED) -record=$(abspath $(FIGURES))

nightly: ## the figures of docs/guarantees.md, for every store, in half an hour: SEED=1; they are written down
	go test -count=1 -v -timeout=0 -run '^TestNightly$$' ./tests/proof -args -nightly -store=$(STORE) -seed=$(SEED) -record=$(abspath $(FIGURES))
	go test -count=1 -timeout=0 -run '^TestStore(_virtual)?_compared$$' ./store/mem ./store/sqlite -rapid.checks=10000
	go test -count=1 -timeout=0 -run '^TestStore(_virtual)?_compared$$|^TestStore$$/.*/^compare$$' ./store/redis ./store/quorum -rapid.checks=300

bench: ## benchmarks, peers side by side: BENCH=core, redis, redlock, sqlite or cli
	@go -C bench run . $(BENCH)

lint: ## gofmt, vet for three systems, staticcheck, golangci-lint
	@scripts/check tools format build lint

docs: ## write the pages of promises anew, and check all: links, package and doc comments, words that do not belong
	go test -count=1 ./internal/promise -args -update
	go test -count=1 -run '^TestDocs' .

man: ## write the man pages of the command down anew in docs/man
	go test -count=1 -run '^TestMan$$' ./cmd/distlock -args -update

mutants: ## break the code line by line; every breakage must be caught by a named test
	@$(call has,scripts/mutants,scripts/mutants)

gremlins: ## change the core mechanically and list what no test notices: an hour, for the night
	@scripts/gremlins

cover: ## how much of the code the tests run; fails below 95 % of the core and 85 % of all
	@scripts/cover

models: ## search the models of the protocol with wide bounds, for minutes
	go test -count=1 -v -timeout=60m -run '^TestModels$$' ./models -args -wide

api: ## write the public API down anew in api/*.txt
	go test -count=1 -run '^TestAPI$$' ./internal/apicheck -args -update

tools: ## build the pinned tools, and etcd for the tests, into .tools/bin
	@scripts/tools

servers: ## install the server programs of the tests (Debian; needs root)
	@$(call has,scripts/servers,scripts/servers)

fuzz: ## run every fuzz target for FUZZTIME=30s
	@scripts/fuzz $(FUZZTIME)

clean: ## remove what was built here, tools included
	rm -rf .tools .work bin dist
	find . -name '*.test' -type f -not -path './.git/*' -delete
