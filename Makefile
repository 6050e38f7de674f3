# Berth's build and its tests. `make help` lists the targets; their names are a contract.
# Needs Go, gcc, make and git, nothing else: every other program is built from pinned source.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := $(CURDIR)/.build/bin
# Documents that a measurement has just written make no other version.
VERSION := $(shell v=$$(git describe --tags --always 2>/dev/null) || { echo unknown; exit; }; \
	git diff --quiet HEAD -- ':(top,exclude)docs' && echo $$v || echo $$v-dirty)
GO_BUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false

# The folders of the workspace's modules. "work" means all of them to the go command.
MODULES := ./cmd/berth ./pkg ./pkg/ca ./services/binder ./services/descheduler ./services/queue ./services/scheduler ./test
# Modules outside the workspace with code of their own.
TOOLS := tools/cluster tools/collector tools/deploy tools/images tools/plot tools/protogen tools/site
# Packages tested at once: one more than a machine with two processors has, because some wait for servers.
JOBS ?= 3
# Runs of each unit test, and the time one package may take: several times what the slowest takes, so that
# a busy machine fails none.
COUNT ?= 1
UNIT_TIMEOUT ?= 20m
# From which seed random tests begin: a fixed one, a number, or "random" to draw one (and print it). The
# targets named here are longer than those of `make test` and explore what it does not.
TEST_SEED ?=
export TEST_SEED
race walk linz chaos replay-check: TEST_SEED := $(or $(TEST_SEED),random)
conformance: TEST_SEED := $(or $(TEST_SEED),$(if $(LONG),random))
# Only tests that match, for `make unit` and `make e2e`: make e2e RUN=TestSmoke
RUN ?= .
# Time that `make fuzz` gives each target.
FUZZTIME ?= 30s
# The strategies that `make bench-descheduling` runs of upstream's, and the time it gives each.
STRATEGIES ?= PodLifeTime RemoveFailedPods RemovePodsHavingTooManyRestarts RemovePodsViolatingInterPodAntiAffinity \
	RemovePodsViolatingNodeTaints RemovePodsViolatingNodeAffinity RemoveDuplicates \
	RemovePodsViolatingTopologySpreadConstraint LowNodeUtilization HighNodeUtilization
UPSTREAM_TIME ?= 60s
# Where `make cluster-up` keeps its cluster, and the nodes it starts with.
CLUSTER_DIR ?= $(CURDIR)/.build/cluster
NODES ?= tools/cluster/examples/demo-nodes.yaml

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build and run

.PHONY: build
build: ## Build .build/bin/berth
	@mkdir -p $(BIN)
	$(GO_BUILD) -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/berth ./cmd/berth

.PHONY: demo
demo: build .cluster-programs ## Run Berth with a small workload on a local cluster, describe what happens and check it
	@go run ./test/demo

.PHONY: demo-stop
demo-stop: ## Stop the processes that DEMO_KEEP=1 make demo kept running
	@go run ./test/demo -stop

.PHONY: cluster-up
cluster-up: .cluster-programs ## Start a local cluster without a scheduler (NODES=file, empty: no nodes)
	@$(BIN)/cluster up --dir $(CLUSTER_DIR) $(if $(NODES),--nodes $(NODES)) --detach >/dev/null
	@echo "export KUBECONFIG=$(CLUSTER_DIR)/kubeconfig"

.PHONY: cluster-down
cluster-down: .cluster-driver ## Stop the local cluster
	@$(BIN)/cluster down --dir $(CLUSTER_DIR)

# The driver compares digests itself, so these cost a second when nothing changed.
.PHONY: .cluster-driver .cluster-programs .peer-programs
.cluster-driver:
	@cd tools/cluster && GOWORK=off go run ./cmd/build cluster
.cluster-programs:
	@cd tools/cluster && GOWORK=off go run ./cmd/build all-but-peers
.peer-programs:
	@cd tools/cluster && GOWORK=off go run ./cmd/build peers

.PHONY: generate
generate: ## Generate the Go code of the protocol buffers and the references of commands, fields and metrics
	@GOWORK=off go run -C tools/protogen . --root $(CURDIR)
	@go test -count=1 -run TestCommandReferenceIsCurrent ./cmd/berth/app -args -update >/dev/null
	@go test -count=1 -run TestFieldReferenceIsCurrent ./test/docs -args -update >/dev/null
	@go test -count=1 -run TestMetricReferenceIsCurrent ./pkg/telemetry -args -update >/dev/null

# Where `make images` writes, and the time in what it writes: the commit's.
IMAGES_DIR ?= $(CURDIR)/.build/images
IMAGES := cd tools/images && GOWORK=off go run . --root $(CURDIR) --out $(IMAGES_DIR) --version '$(VERSION)' \
	--created "$$(git -C $(CURDIR) log -1 --format=%ct)"

.PHONY: images
images: ## Build and check container images as an OCI layout with bills of materials, without Docker (SAME=1: twice)
	@$(IMAGES) build
	@$(IMAGES) verify
	@$(if $(SAME),$(IMAGES) same)

.PHONY: deploy-generate
deploy-generate: ## Write the files generated from the chart: deploy/k8s, deploy/monitoring, docs/values.md
	@GOWORK=off go run -C tools/deploy . generate --root $(CURDIR)

.PHONY: deploy-check
deploy-check: build .cluster-programs .peer-programs ## Check the manifests: chart and kustomize agree, an API server accepts them, the demo runs with only their permissions
	@cd tools/deploy && GOWORK=off go test -count 1 ./...
	@go test -p 1 -tags e2e -count 1 -timeout 80m -run '$(RUN)' ./test/deploy

.PHONY: ha-up
ha-up: build .cluster-programs ## Run Berth on a local cluster as in deploy/k8s/overlays/ha, until Ctrl-C
	@mkdir -p $(BIN) && go test -c -tags e2e,serve -o $(BIN)/ha ./test/deploy
	@cd test/deploy && exec $(BIN)/ha -test.run '^TestServe$$' -test.timeout 0

##@ Check and test

# What a change must pass, cheapest first.
STAGES := check unit conformance e2e

.PHONY: test
test: ## Run everything that a change must pass, including end-to-end tests on a real API server
	@begin=$$SECONDS; for stage in $(STAGES); do \
		printf '==> [%4d s] %s\n' $$((SECONDS - begin)) $$stage; \
		$(MAKE) $$stage || { printf '==> [%4d s] %s FAILED\n' $$((SECONDS - begin)) $$stage; exit 1; }; \
	done; printf '==> [%4d s] passed: %s\n' $$((SECONDS - begin)) '$(STAGES)'

.PHONY: check
check: format generated tidy vet lint rules docs-check ## Check format, generated code, modules, vet, lint, house rules, documents

.PHONY: generated
generated: ## Fail if generated code is stale
	@GOWORK=off go run -C tools/protogen . --root $(CURDIR) --check

.PHONY: format
format: ## Fail if a file is not formatted with gofmt
	@files=$$(gofmt -l cmd pkg services test tools); \
	if [ -n "$$files" ]; then echo "not formatted (run gofmt -w):"; echo "$$files"; exit 1; fi

.PHONY: tidy
tidy: ## Fail if go mod tidy would change a go.mod or go.sum
	@for module in $(MODULES) $(TOOLS) test/conformance test/monitoring; do \
		(cd $$module && GOWORK=off go mod tidy -diff) || { echo "$$module: run GOWORK=off go mod tidy there"; exit 1; }; \
	done

.PHONY: vet
vet: ## Run go vet on all modules, including end-to-end tests
	@go vet -tags e2e,upgrade,serve work
	@for module in $(TOOLS) test/conformance; do (cd $$module && GOWORK=off go vet -tags cluster ./...); done

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run golangci-lint on all modules (built from source once)
	@$(BIN)/golangci-lint run --build-tags e2e,upgrade,serve $(addsuffix /...,$(MODULES))

$(BIN)/golangci-lint: tools/lint/go.mod
	@mkdir -p $(BIN)
	@echo "building golangci-lint (about two minutes, once) ..."
	@cd tools/lint && GOWORK=off $(GO_BUILD) -ldflags '-s -w' -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# Helm, for the test that upgrades the chart.
$(BIN)/helm: tools/helm/go.mod
	@mkdir -p $(BIN)
	@echo "building helm (about two minutes, once) ..."
	@cd tools/helm && GOWORK=off $(GO_BUILD) -ldflags '-s -w' -o $@ helm.sh/helm/v3/cmd/helm

# The OpenTelemetry collector's receiver, for the test of traces.
$(BIN)/collector: tools/collector/main.go tools/collector/go.mod
	@cd tools/collector && GOWORK=off go build -o $@ .

# A folder with a copy of the Go vulnerability database.
VULNDB ?=

.PHONY: vulncheck
vulncheck: vulndb $(BIN)/govulncheck ## Check code that berth calls for known vulnerabilities, with your own database (VULNDB=directory)
	@echo 'database $(VULNDB): '"$$(cat '$(VULNDB)/index/db.json')"
	@cd cmd/berth && $(BIN)/govulncheck -db "file://$$(cd '$(CURDIR)' && cd '$(VULNDB)' && pwd)" ./...

# govulncheck takes an empty folder for a database, and then finds nothing.
.PHONY: vulndb
vulndb:
	@for part in index/db.json index/modules.json index/vulns.json ID; do \
		[ -n '$(VULNDB)' ] && [ -e '$(VULNDB)'/$$part ] || { \
			echo "VULNDB is '$(VULNDB)', which has no $$part:" \
				'want VULNDB=FOLDER, the folder of an unpacked vulndb.zip of https://vuln.go.dev' >&2; \
			exit 2; \
		}; \
	done

$(BIN)/govulncheck: tools/vuln/go.mod
	@mkdir -p $(BIN)
	@cd tools/vuln && GOWORK=off $(GO_BUILD) -ldflags '-s -w' -o $@ golang.org/x/vuln/cmd/govulncheck
	@touch $@

.PHONY: rules
rules: house ## Check the house rules: import edges, ceilings, banned calls and words; prints the waivers
	@go test -count=1 -v -run TestHouseRules ./test/rules | grep -v -e '^=== RUN' -e '^--- PASS' -e '^PASS'

.PHONY: house
house: ## Print the measures of the shipped code, each with its standard
	@go test -count=1 -v -run 'TestHouse$$' ./test/rules | grep -v -e '^=== RUN' -e '^--- PASS' -e '^PASS' -e '^ok' | sed 's/^ *house_test.go:[0-9]*: //'

# `make vet` looks at the same packages, with all that it can find.
.PHONY: unit
unit: ## Run unit, property and contract tests of all modules (RUN=regexp, COUNT=n)
	@go test -vet=off -p $(JOBS) -count $(COUNT) -timeout $(UNIT_TIMEOUT) -run '$(RUN)' work
	@for module in $(TOOLS); do \
		(cd $$module && GOWORK=off go test -vet=off -p $(JOBS) -count $(COUNT) -timeout $(UNIT_TIMEOUT) -run '$(RUN)' ./...); \
	done

.PHONY: race
race: ## Run unit tests with the race detector
	@go test -race -p $(JOBS) -count 1 -timeout 40m -run '$(RUN)' work

# How many end-to-end tests run beside each other, each with a cluster of its own. Tests that measure time or create
# many pods run alone.
BESIDE ?= 4

.PHONY: e2e
e2e: build .cluster-programs .peer-programs $(BIN)/collector ## Run end-to-end tests on a real API server (RUN=regexp)
	@go test -p 1 -parallel $(BESIDE) -tags e2e -count 1 -timeout 40m -run '$(RUN)' ./test/e2e/...

# The labs to run, by folder of examples/labs, and the scheduler that has to do what they say.
LABS ?= all
SCHEDULER ?= berth

# Decisions made again from the log: PODS pods on nodes to suit, two shards, real stores, and a stand-in
# for the API server, which would be what the shards wait for. SEED=n repeats an order of pods.
PODS ?= 20000
.PHONY: replay-check
replay-check: build .cluster-programs ## Run two shards under load, and check that replay recomputes every decision (PODS=n SEED=s)
	@go test -p 1 -tags e2e -count 1 -timeout 180m -v -run TestReplayUnderLoad ./test/e2e \
		-args -replay-load-pods=$(PODS) $(if $(SEED),-replay-seed=$(SEED))

.PHONY: labs
labs: build .cluster-programs ## Run the labs of examples/labs, command by command (LABS="name ..." SCHEDULER=kube-scheduler)
	@$(if $(filter kube-scheduler,$(SCHEDULER)),$(MAKE) .peer-programs)
	@go test -tags e2e -count 1 -timeout 60m ./test/labs -args -labs '$(LABS)' -scheduler '$(SCHEDULER)'

# Seeds of `make duel`, and who plays.
DUEL_SEEDS ?= 3
DUELLISTS ?= kube-scheduler,berth

# The commit whose berth runs beside this one's, and where it is built.
PREVIOUS ?= HEAD~
PREVIOUS_DIR := $(CURDIR)/.build/previous

# The berth and the manifests of PREVIOUS, as $$old and $(PREVIOUS_DIR)/deploy.
define BUILD_PREVIOUS
commit=$$(git rev-parse --verify --quiet '$(PREVIOUS)^{commit}') || { \
		echo 'no commit $(PREVIOUS) here: in a shallow clone run `git fetch --deepen 1`, or set PREVIOUS=commit'; \
		exit 2; }; \
	old=$(PREVIOUS_DIR)/berth-$$commit; \
	if [ ! -x $$old ]; then \
		trap 'git worktree remove --force $(PREVIOUS_DIR)/tree' EXIT; \
		git worktree add --force --detach $(PREVIOUS_DIR)/tree $$commit >/dev/null 2>&1; \
		(cd $(PREVIOUS_DIR)/tree && $(GO_BUILD) -ldflags "-s -w -X main.version=$${commit:0:7}" -o $$old ./cmd/berth); \
	fi; \
	rm -rf $(PREVIOUS_DIR)/deploy && mkdir -p $(PREVIOUS_DIR) && git archive $$commit deploy | tar -x -C $(PREVIOUS_DIR)
endef

.PHONY: upgrade-check
upgrade-check: build .cluster-programs $(BIN)/helm ## Upgrade manifests and berth of another commit to this one, and back, under load (PREVIOUS=commit)
	@$(BUILD_PREVIOUS); \
	go test -p 1 -tags e2e,upgrade -count 1 -timeout 60m -v \
		-run 'TestManifestsAreUpgraded|TestChartIsUpgraded|TestPeersGetAnAuthority' \
		./test/deploy -args -previous $(PREVIOUS_DIR)/deploy; \
	go test -p 1 -tags e2e,upgrade -count 1 -timeout 40m -v -run 'TestMixedVersionsUnderLoad|TestFieldsOfALaterVersionStay' \
		./test/e2e -args -previous $$old

.PHONY: adopt-check
adopt-check: build .cluster-programs .peer-programs ## Play an operator's path: install another commit, adopt a namespace, upgrade, hand over, lose members, go back (PREVIOUS=commit)
	@$(BUILD_PREVIOUS); \
	go test -p 1 -tags e2e,upgrade -count 1 -timeout 20m -v -run TestAdoption \
		./test/deploy -args -previous $(PREVIOUS_DIR)/deploy -previous-berth $$old

# The older minor versions of Kubernetes to run on, each built once, and the tests that do.
KUBERNETES ?= 1.34 1.35
ON_OLDER := ^(TestSmoke|TestVolumes|TestDevices|TestWithoutDevices|TestStatusAndLogLevel)$$
HAND_OVER_ON_OLDER := ^TestHandOverAndBack$$

.PHONY: versions-check
versions-check: build .cluster-programs ## Run the smoke test, volumes, devices and the hand-over on older API servers (KUBERNETES="1.35")
	@cd tools/cluster && GOWORK=off go run ./cmd/build $(addprefix kubernetes-,$(KUBERNETES))
	@for version in $(KUBERNETES); do \
		echo "Kubernetes $$version"; \
		go test -p 1 -parallel 1 -tags e2e -count 1 -timeout 30m -run '$(ON_OLDER)' ./test/e2e -args -kubernetes $$version; \
		go test -p 1 -tags e2e -count 1 -timeout 20m -run '$(HAND_OVER_ON_OLDER)' ./test/deploy -args -kubernetes $$version; \
	done

.PHONY: duel
duel: build .cluster-programs .peer-programs ## Run one script against two kube-schedulers and the descheduler, and against Berth (DUEL_SEEDS=n SEED=n)
	@$(BENCH) duel --seeds $(DUEL_SEEDS) --seed $(if $(SEED),$(SEED),1) --contenders $(DUELLISTS)

# Flags of `make dra-duel`, as in `go run ./test/perf/cmd/berthbench dra-duel -h`.
DRA_FLAGS ?=

.PHONY: dra-duel
dra-duel: build .cluster-programs .peer-programs ## Create as many claims as devices at once, for two kube-schedulers and four shards, and count double allocations (DRA_FLAGS="--nodes 50")
	@$(BENCH) dra-duel $(DRA_FLAGS)

# The neighbours to run, or all, and how many pods a script has. The programs are built on first use.
NEIGHBOURS ?= all
SCENARIOS ?= all
NEIGHBOUR_PODS ?= 500

.PHONY: neighbours
neighbours: build .cluster-programs .peer-programs ## Run autoscalers and other neighbours beside kube-scheduler and Berth, and compare (NEIGHBOURS="karpenter" SCENARIOS="script" ACCEPT=1)
	@go test -p 1 -tags e2e -count 1 -timeout 180m -v -run TestNeighbours ./test/neighbours -args -neighbours '$(NEIGHBOURS)' \
		-scenarios '$(SCENARIOS)' -pods $(NEIGHBOUR_PODS) -berth-version '$(VERSION)' $(if $(ACCEPT),-accept) | grep -v -e '^=== '

# How many decisions are compared with kube-scheduler's.
COMPARISONS ?= $(if $(LONG),20000,2000)

.PHONY: conformance
conformance: ## Compare decisions with kube-scheduler and the descheduler on random clusters (LONG=1, COMPARISONS=n)
	@$(MAKE) -j 2 -O .conformance-scheduler .conformance-descheduler

# Each is busy with one processor. Printed are seeds and tables, upstream's own log is not.
TABLES := grep -v -e '^=== ' -e '^[IWE][0-9]\{4\} '

.PHONY: .conformance-scheduler .conformance-descheduler
.conformance-scheduler:
	@cd test/conformance && GOWORK=off go test -v -count=1 -timeout 120m . -args -comparisons=$(COMPARISONS) | $(TABLES)
.conformance-descheduler:
	@cd test/conformance && GOWORK=off go test -v -count=1 -timeout 120m ./descheduling \
		-args -cases=$(COMPARISONS) -loops=$(if $(LONG),2000,0) | $(TABLES)
	@cd test/conformance && GOWORK=off go test -count=1 ./cmd/...
	@$(MAKE) monitoring

.PHONY: places
places: ## Compare places by 1 to 8 shards with the scores of kube-scheduler's plugins: tables; fails if a pod on a calm cluster is short
	@cd test/conformance && GOWORK=off go test -v -count=1 -timeout 60m -run 'Places|Packing' . -args -places-large | $(TABLES)

.PHONY: monitoring
monitoring: ## Check alerts, dashboard and the queries of the descheduler against recorded metrics, with Prometheus itself
	@cd test/monitoring && GOWORK=off go test -count=1 ./...

.PHONY: monitoring-live
monitoring-live: build .cluster-programs .peer-programs ## Check them and the metrics of kube-scheduler against live metrics (RECORD=1 records those of Berth for `make monitoring`)
	@go test -p 1 -tags e2e -count 1 -timeout 10m -run TestMetricsAreKubeSchedulers ./test/e2e
	@cd test/monitoring && GOWORK=off go test -count=1 ./... -args -scrape $(CURDIR)/.build/scrapes/berth.prom
	@$(if $(RECORD),cp .build/scrapes/berth.prom test/monitoring/testdata/berth.prom)

.PHONY: model
model: ## Explore every history of the small models (LONG=1 adds the large scenarios)
	@go test -count=1 -v -timeout 30m ./test/model/... -args $(if $(LONG),-long) | grep -v -e '^=== '

.PHONY: crowd
crowd: ## Run four shards on a real etcd with rules between pods, and check every ledger revision (LONG=1: 5,000 nodes)
	@go test -count=1 -v -timeout 40m ./test/crowd -args $(if $(LONG),-long) | grep -v -e '^=== '

# Random steps of the queue and its model.
STEPS ?= 1000000

.PHONY: walk
walk: ## Compare the queue with a model of it over random cluster histories (STEPS=n)
	@cd services/queue && go test -count=1 -v -timeout 60m -run 'TestWalk$$' ./decide -args -steps=$(STEPS)

# Seeds of the simulation that are the same each time, and how many new ones are played besides, from FIRST on:
# a random number, unless it is given. LONG=1 also looks that everything that can happen has happened. SEED=n plays
# one and prints what happens, MUTANT=name without a part of the protocol, FAMILY=name about that.
SEEDS ?= $(if $(LONG),10000,500)
RANDOM_SEEDS ?= $(if $(LONG),5000,250)
# Seeds about pods that are as large as documents and transactions. One costs as much as ten others.
SIZED_SEEDS ?= $(if $(LONG),500,50)
ifndef FIRST
FIRST := $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
endif
SIM := go test -count=1 -v -timeout 180m ./test/sim -args -commit '$(VERSION)'
SIM_ONE = $(subst -v,-v -run TestSimulation,$(SIM)) -family '$(FAMILY)'

.PHONY: sim
sim: ## Simulate the whole system with faults, from seeds (SEEDS=n, RANDOM_SEEDS=n FIRST=s, LONG=1; SEED=n MUTANT=name replays one)
ifneq ($(SEED),)
	@$(SIM_ONE) -first $(SEED) -seeds 1 -mutant '$(MUTANT)' -trace
else
	@$(subst -v,-v -run 'TestSimulation|TestSameSeedSameRun',$(SIM)) -seeds $(SEEDS) $(if $(LONG),-enforce-coverage) \
		| grep -v -e '^=== '
	@$(MAKE) sim-random FIRST=$(FIRST)
	@$(MAKE) sim-random FIRST=$(FIRST) RANDOM_SEEDS=$(SIZED_SEEDS) FAMILY=sized
	@$(MAKE) sim-random FIRST=$(FIRST) FAMILY=grouped
	@$(MAKE) histories FIRST=$(FIRST)
	@$(MAKE) sim-mutants
endif

.PHONY: sim-random
sim-random: ## Simulate new random seeds only (RANDOM_SEEDS=n, FIRST=s repeats a run)
	@echo "simulation: random seeds from $(FIRST); to repeat: make sim-random FIRST=$(FIRST) RANDOM_SEEDS=$(RANDOM_SEEDS) FAMILY=$(FAMILY)"
	@$(SIM_ONE) -first $(FIRST) -seeds $(RANDOM_SEEDS) | grep -v -e '^=== '

.PHONY: sim-budgets
sim-budgets: ## Simulate preemption and evictions that compete for one budget, with faults: 1,000 seeds and new ones (SEED=n replays one)
ifneq ($(SEED),)
	@$(SIM_ONE) -budgets -first $(SEED) -seeds 1 -trace
else
	@$(SIM_ONE) -budgets -seeds 1000 | grep -v -e '^=== '
	@echo "budgets: random seeds from $(FIRST)"
	@$(SIM_ONE) -budgets -first $(FIRST) -seeds $(RANDOM_SEEDS) | grep -v -e '^=== '
endif

# How many new random histories of shards there are of each kind.
HISTORIES ?= $(if $(LONG),2000,200)
HISTORY_KINDS := cross kept preempt remade replica overcommit takeover incarnation

.PHONY: scripts
scripts: ## Play the stories in test/sim/testdata/scripts on the real cores and compare what happens (REWRITE=1 records)
	@go test -count=1 -run TestScripts ./test/sim $(if $(REWRITE),-rewrite)

.PHONY: histories
histories: ## Test new random shard histories: rules, places, preemption, take-overs, nodes (HISTORIES=n, FIRST=s repeats a run)
	@echo "histories of shards: random seeds from $(FIRST); to repeat: make histories FIRST=$(FIRST) HISTORIES=$(HISTORIES)"
	@cd services/scheduler && go test -count=1 -timeout 60m ./decide \
		-run 'TestShards(KeepRules|TakeOver|Preempt|Never)|TestDecisionsAreMadeAgain' \
		-args $(foreach kind,$(HISTORY_KINDS),-$(kind)-first $(FIRST) -$(kind)-seeds $(HISTORIES))

.PHONY: sim-mutants
sim-mutants: ## Remove each part of the protocol in turn; the simulation must detect each
	@$(subst -v,-v -run TestMutants,$(SIM)) -rare-mutants | grep -v -e '^=== '

.PHONY: reverts
reverts: ## Revert the fixes of docs/bugs.md one at a time; the tests named there must fail (RUN=TestReverts/32- for one bug)
	@go test -tags e2e -count=1 -v -timeout 180m -run '$(RUN)' ./test/reverts | grep -v -e '^=== '

.PHONY: cluster-check
cluster-check: .cluster-programs ## Test the local cluster driver itself, on real programs
	@cd tools/cluster && GOWORK=off go run ./cmd/build all
	@cd tools/cluster && GOWORK=off go test -tags cluster -count 1 -timeout 20m ./e2e/...

.PHONY: fuzz
fuzz: ## Run each fuzz target of all packages, or of one, for a limited time (PKG=./pkg/state FUZZTIME=30s)
	@packages='$(PKG)'; \
	[ -n "$$packages" ] || packages=$$(grep -rl --include='*_test.go' '^func Fuzz' cmd pkg services test | xargs -n 1 dirname | sort -u); \
	for package in $$packages; do \
		package=./$${package#./}; \
		targets=$$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); \
		if [ -z "$$targets" ]; then echo "no fuzz targets in $$package"; exit 2; fi; \
		for target in $$targets; do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

# Rounds of `make linz`, each with keys of its own; every third kills the leader.
ROUNDS ?= 60

.PHONY: linz
linz: .cluster-programs ## Check linearizability of the ledger on a real etcd of 3 members while leaders are killed (ROUNDS=n SEED=s)
	@go test -tags e2e -count 1 -timeout 20m -v ./test/linz -args -rounds=$(ROUNDS) $(if $(SEED),-seed=$(SEED))

# How long `make chaos` breaks things.
CHAOS ?= 10m

.PHONY: chaos
chaos: build .cluster-programs ## Inject faults into real processes under load, then check and audit (CHAOS=90s SEED=s)
	@go test -tags e2e -count 1 -timeout 60m -v -run TestChaos ./test/chaos -args -chaos=$(CHAOS) $(if $(SEED),-seed=$(SEED))

.PHONY: docs-check
docs-check: ## Check documents: links resolve, make targets exist, commands are run or say why not, labs are complete
	@go test -count=1 ./test/docs ./test/labs

# Where `make site` writes, and the URL that it writes for.
SITE_DIR ?= $(CURDIR)/.build/site
SITE_URL ?= https://berth-scheduler.github.io/berth/

HUGO = cd tools/site && $(BIN)/hugo --cacheDir $(CURDIR)/.build/hugo --noBuildLock

$(BIN)/hugo: tools/hugo/go.mod
	@mkdir -p $(BIN)
	@echo "building hugo (a few minutes, once) ..."
	@cd tools/hugo && GOWORK=off $(GO_BUILD) -ldflags '-s -w' -o $@ github.com/gohugoio/hugo
	@touch $@

.PHONY: site
site: $(BIN)/hugo ## Build the documentation site into .build/site; fails on a broken link (SITE_URL=url)
	@rm -rf $(SITE_DIR)
	@$(HUGO) --panicOnWarning --baseURL '$(SITE_URL)' --destination $(SITE_DIR) >/dev/null
	@cd tools/site && GOWORK=off go run . --site $(SITE_DIR) --base '$(SITE_URL)' --root $(CURDIR)

.PHONY: site-serve
site-serve: $(BIN)/hugo ## Serve the site at http://127.0.0.1:1313, rebuilt when a page changes, until Ctrl-C
	@$(HUGO) server --bind 127.0.0.1 --port 1313 --renderToMemory

# Documents whose commands are run, by a pattern of their names.
PAGES ?= .

.PHONY: docs-run
docs-run: build .cluster-programs ## Run every command that the documents show, as a reader would (PAGES=regexp)
	@go test -p 1 -tags e2e -count 1 -timeout 60m -v -run TestDocumentedCommandsRun ./test/docs -args -pages '$(PAGES)'

# What is run before a change is merged, cheapest first; each says when it began.
PRESUBMIT := test site race walk sim reverts cluster-check deploy-check upgrade-check adopt-check versions-check docs-run \
	labs linz 'chaos CHAOS=2m' 'conformance LONG=1' 'fuzz PKG=./pkg/placement/engine'

.PHONY: presubmit
presubmit: ## Run make test and the longer checks: race, reverts, chaos, linz, deploy-check, upgrade-check, random seeds
	@begin=$$SECONDS; for step in $(PRESUBMIT); do \
		printf '==> [%5d s] %s\n' $$((SECONDS - begin)) "$$step"; \
		$(MAKE) $$step || { printf '==> [%5d s] %s FAILED\n' $$((SECONDS - begin)) "$$step"; exit 1; }; \
	done; printf '==> [%5d s] passed: make presubmit\n' $$((SECONDS - begin))

##@ Measure

.PHONY: bench
bench: .bench-programs ## Run a few parts of bench-full once each, in ten minutes, and compare with the accepted outcomes
	@$(BENCHFULL) run $(FULL) --runs 1 --out .build/bench/quick $(QUICK_PARTS)
	@$(BENCHFULL) check --out .build/bench/quick
	@go test -p 1 -run '^$$' -bench '^BenchmarkMany$$' -benchtime 300x ./pkg/events/jetstream

.PHONY: bench-go
bench-go: ## Run Go benchmarks of all modules (RUN=regexp)
	@go test -p 1 -run '^$$' -bench '$(RUN)' -benchmem work

# Parts of bench-full, all when empty; each leaves its outcome in .build/bench/full until it runs again.
PARTS ?=
# Runs of each contender and setting, alternating, and the length of the part "steady".
FULL_RUNS ?= 3
STEADY ?= 1h
# A drain, what an append and a delivery of facts cost, the path with its null path, and an idle process.
QUICK_PARTS := drain-1000 log path idle
BENCH = go run ./test/perf/cmd/berthbench
BENCHFULL := $(BIN)/berthbench full
# Upstream's files come from its module.
FULL = --upstream "$$(cd test/conformance && GOWORK=off go list -m -f '{{.Dir}}' $(PEER_MODULE))"

.PHONY: .bench-programs
.bench-programs: build .cluster-programs .peer-programs
	@cd test/conformance && GOWORK=off go mod download $(PEER_MODULE)
	@go build -o $(BIN)/berthbench ./test/perf/cmd/berthbench

BENCH_DOCS = $(BENCH) full docs --plots .build/bench/plots.json && \
	(cd tools/plot && GOWORK=off go run . --in $(CURDIR)/.build/bench/plots.json --out $(CURDIR)/docs/plots)

.PHONY: bench-full
bench-full: .bench-programs ## Run the whole table of benchmarks, for hours (PARTS="drain-1000 path", FULL_RUNS=n, STEADY=10m); then bench-docs
	@ended=0; $(BENCHFULL) run $(FULL) --runs $(FULL_RUNS) --steady $(STEADY) $(PARTS) || ended=$$?; $(BENCH_DOCS); exit $$ended

.PHONY: bench-docs
bench-docs: ## Generate docs/benchmarks.md and its plots from the accepted outcomes or newer ones in .build/bench/full
	@$(BENCH_DOCS)

.PHONY: bench-check
bench-check: ## Compare .build/bench/full with the accepted outcomes, by ratio; fails on regressions
	@$(BENCH) full check $(PARTS)

.PHONY: bench-accept
bench-accept: ## Accept the outcomes of .build/bench/full (PARTS=), in test/perf/accepted
	@$(BENCH) full accept $(PARTS)
	@$(MAKE) bench-docs

# Only some workloads, separated by commas; what comes out is printed and docs/ left alone.
WORKLOADS ?=

.PHONY: bench-placement
bench-placement: ## Compare the engine with the code of kube-scheduler, and measure a shard's memory: docs/benchmarks-placement.md (WORKLOADS=basic,mixed)
ifeq ($(WORKLOADS),)
	@go build -o $(BIN)/berthbench ./test/perf/cmd/berthbench
	@GOMEMLIMIT=620MiB $(BIN)/berthbench memory --nodes 5000 --pods 150000 --out .build/bench/memory-5000.json
	@GOMEMLIMIT=3400MiB $(BIN)/berthbench memory --nodes 100000 --pods 1000000 --decisions 500 --out .build/bench/memory-100000.json
	@cd test/conformance && GOWORK=off go run ./cmd/benchplacement --version '$(VERSION)' \
		--memory $(CURDIR)/.build/bench/memory-5000.json,$(CURDIR)/.build/bench/memory-100000.json \
		--json $(CURDIR)/.build/bench/placement.json --markdown $(CURDIR)/docs/benchmarks-placement.md
else
	@cd test/conformance && GOWORK=off go run ./cmd/benchplacement --version '$(VERSION)' --workloads $(WORKLOADS)
endif

.PHONY: bench-preemption
bench-preemption: ## Compare preemption by the engine with the code of kube-scheduler: a table on standard output
	@cd test/conformance && GOWORK=off go run ./cmd/benchpreemption

.PHONY: bench-devices
bench-devices: ## Compare placement of pods with device claims with the code of kube-scheduler: a table on standard output
	@cd test/conformance && GOWORK=off go run ./cmd/benchdevices 2>/dev/null

.PHONY: bench-descheduling
bench-descheduling: ## Measure a descheduling cycle over 5,000 nodes and 150,000 pods, and upstream's on the same objects
	@cd pkg && GOMAXPROCS=1 GOMEMLIMIT=600MiB go test -run '^$$' -bench Cycle -benchtime 1x ./descheduling/plan
	@cd test/conformance && GOWORK=off go test -c -o $(BIN)/descheduling.test ./descheduling
	@cd test/conformance/descheduling && for strategy in $(STRATEGIES); do \
		code=0; GOMAXPROCS=1 timeout $(UPSTREAM_TIME) $(BIN)/descheduling.test -test.run '^$$' -test.benchtime 1x \
			-test.bench "Upstream/^$$strategy\$$" 2>/dev/null | grep ^Benchmark || code=$${PIPESTATUS[0]}; \
		case $$code in 0) ;; 124) echo "BenchmarkUpstream/$$strategy: stopped after $(UPSTREAM_TIME)";; *) exit $$code;; esac; \
	done

# RUNS per contender, alternating; CONTENDERS and MODES as in `go run ./test/perf/cmd/berthbench e2e -h`.
RUNS ?= 1
CONTENDERS ?= kube-scheduler,berth,berth-processes
MODES ?= live,drain

.PHONY: bench-queue
bench-queue: build .cluster-programs ## Measure the queue: many parked pods, a million pending pods; on a real API server, pods next to 10,000 unschedulable ones
	@cd services/queue && go test -p 1 -run '^$$' -bench 'Events|Deletion|Cycle' -benchmem ./decide
	@cd services/queue && go test -p 1 -run '^$$' -bench MillionPending -benchtime 1x ./decide
	@for blocked in 0 10000; do $(BENCH) e2e --runs $(RUNS) --contenders berth --modes live \
		--leaving 500 --blocked $$blocked --out .build/bench/blocked-$$blocked || exit 1; done

.PHONY: bench-e2e
bench-e2e: build .cluster-programs .peer-programs ## Compare with kube-scheduler on a real API server
	@$(BENCH) e2e --runs $(RUNS) --contenders $(CONTENDERS) --modes $(MODES) --out .build/bench

# Upstream's own files, read from its module; PERF as case/workload, separated by commas.
PERF ?= SchedulingBasic/500Nodes,SchedulingPodAffinity/500Nodes,TopologySpreading/500Nodes
SCALE ?= 1
PEER_MODULE := k8s.io/kubernetes
.PHONY: bench-perf
bench-perf: build .cluster-programs .peer-programs ## Run the workloads of scheduler_perf on a real API server (PERF=, SCALE=, RUNS=)
	@cd test/conformance && GOWORK=off go mod download $(PEER_MODULE)
	@$(BENCH) perf --runs $(RUNS) --contenders $(CONTENDERS) --workloads $(PERF) --scale $(SCALE) \
		--files "$$(cd test/conformance && GOWORK=off go list -m -f '{{.Dir}}' $(PEER_MODULE))/test/integration/scheduler_perf"

# Pods that arrive at once where the API server costs nothing.
PATH_PODS ?= 20000
.PHONY: bench-path
bench-path: build .cluster-programs ## Measure Berth's own limit: real log, ledger and services, with binds to a sink (PATH_PODS=, RUNS=)
	@$(BENCH) path --runs $(RUNS) --pods $(PATH_PODS) --budget test/perf/budget.yaml

# Pods and runs of the real processes that the model of many shards is compared with; REUSE=1 takes those of last time.
SCALE_PODS ?= 10000
SCALE_RUNS ?= 1
REUSE ?=

.PHONY: scale
scale: build .cluster-programs ## Model 10 to 64 shards and up to a million nodes, and compare with real runs: docs/scale.md (REUSE=1, SCALE_RUNS=n)
	@for workload in plain leaning; do \
		out=.build/bench/scale/$$workload; \
		[ -n '$(REUSE)' ] && [ -f $$out/bench-path.json ] || $(BENCH) path --shards 1,2,4 --pods $(SCALE_PODS) \
			--runs $(SCALE_RUNS) --workload $$workload --timeout 15m --out $$out || exit 1; \
	done
	@$(BENCH) scale --docs docs/scale.md \
		--real .build/bench/scale/plain/bench-path.json,.build/bench/scale/leaning/bench-path.json
	@cd tools/plot && GOWORK=off go run . --in $(CURDIR)/.build/bench/scale/plots.json --out $(CURDIR)/docs/plots

# What `make pgo` runs while it records: all in one process, and each service in its own.
PGO_RUNS := --together --workload=plain

.PHONY: pgo
pgo: build .cluster-programs ## Record processor profiles of Berth under load, and make cmd/berth/default.pgo from them: builds are optimised with it
	@rm -rf .build/bench/pgo
	@for run in $(PGO_RUNS); do \
		$(BENCH) path $$run --pods 40000 --profiling --profiled 60s --out .build/bench/pgo/$${run##*[-=]}; \
	done
	@rm .build/bench/pgo/*/*-allocs.pprof
	@$(BENCH) pgo .build/bench/pgo/*/*.pprof
	@go test -count=1 -run TestTheShippedProfile ./test/perf/cmd/berthbench/pgo

# Pods of high priority that arrive where everything is full, and how full the nodes are.
PREEMPTORS ?= 5000
PREEMPTION_NODES ?= tools/cluster/examples/preemption-nodes.yaml

.PHONY: bench-preemption-e2e
bench-preemption-e2e: build .cluster-programs .peer-programs ## Compare preemption on full nodes with kube-scheduler on a real API server (PREEMPTORS=n)
	@$(BENCH) e2e --runs $(RUNS) --contenders $(CONTENDERS) --modes preempt --pods $(PREEMPTORS) \
		--nodes $(PREEMPTION_NODES) --timeout 60m --out .build/bench/preemption

# Rounds, in each of which as many pods are placed with records, without, and with traces besides; a
# multiple of six goes through all orders of the three equally often.
OBSERVE_ROUNDS ?= 600
OBSERVE_PODS ?= 250

.PHONY: bench-observe
bench-observe: build .cluster-programs $(BIN)/collector ## Measure what records and traces cost, and whether traces arrive (OBSERVE_ROUNDS=n OBSERVE_PODS=n)
	@cd services/scheduler && go test -run '^$$' -bench Tracing -benchmem .
	@$(BENCH) path --observed records,nothing,traces --runs $(OBSERVE_ROUNDS) --pods $(OBSERVE_PODS) \
		--nodes 5000 --timeout 30m --out .build/bench/observe

# Pods in the cluster where some are explained.
EXPLAIN_PODS ?= 150000

.PHONY: bench-explain
bench-explain: build .cluster-programs ## Measure berth explain at 5,000 nodes and 150,000 pods, end to end (EXPLAIN_PODS=n for fewer)
	@$(BENCH) explain --pods $(EXPLAIN_PODS)
