# `make` lists the targets. `make test` requires Go, make and git; `make check` also a C compiler
# for -race. The other tools are those of hack/tools/go.mod.

GO       ?= go
PKG      ?= ./...
FUZZTIME ?= 30s
RUNS     ?= 100
# Factor by which random and long tests run longer in `make soak` than in `make test`.
SOAK     ?= 3
# Arguments for soak, such as SOAKFLAGS=-race.
SOAKFLAGS ?=
# Arguments for the benchmark program, such as BENCHFLAGS='-h'.
BENCHFLAGS ?=
# Arguments for the tests on a real control plane, such as E2EFLAGS='-run W19'. They follow
# the packages, because the flags of chaos are not flags of go test.
E2EFLAGS ?=
# Version of Kubernetes for them, such as VERSION=v1.30.14, instead of the one in e2e/build/go.mod.
VERSION  ?=
export KUBERNETES_VERSION = $(VERSION)
# Arguments for the tests in a browser, such as BROWSERFLAGS='-bars -v'.
BROWSERFLAGS ?=
# Arguments for client-go's tests, such as UPSTREAMFLAGS='-v -run TestReflector'.
UPSTREAMFLAGS ?=
# Arguments for the scale run, such as SCALEFLAGS='-pods 10000'.
SCALEFLAGS ?=
# HTML=1 makes `cover` also write coverage.html.
HTML ?=

# Separate modules, each with a replace of the root module. `make check` vets them, and runs the
# tests of controllerruntime, of e2e/rules and of the examples.
MODULES = $(patsubst %/go.mod,%,$(wildcard bench/go.mod controllerruntime/go.mod e2e/go.mod e2e/console/go.mod e2e/rules/go.mod examples/*/go.mod))

# The packages whose tests also run in the module e2e. It requires the newest supported versions of k8s.io
# and controller-runtime, and go.mod and controllerruntime/go.mod the oldest.
NEWEST = github.com/tarnproject/tarn/clientgo/... github.com/tarnproject/tarn/controllerruntime/...

step = @printf '==> %s\n'

# The tools of hack/tools. gotestsum runs go test and prints the failures again at the end.
tool   = $(GO) tool -modfile='$(CURDIR)/hack/tools/go.mod'
gotest = $(tool) gotestsum --format pkgname-and-test-fails --hide-summary skipped --

# The packages of $(1) with random or long tests.
soaked = $(GO) list -f '{{.Dir}}' $(1) | while read -r dir; do if grep -qE 'soak\.Rounds|rapid\.Check' "$$dir"/*_test.go 2>/dev/null; then echo "$$dir"; fi; done

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: vet unit bench-guard ## go vet, all tests, examples and blocks of the documentation, and what the hot paths allocate
	$(step) 'all passed'

.PHONY: check
check: fmt staticcheck vuln race test-386 modules browser ## what test leaves out: gofmt, staticcheck, govulncheck, tests with -race and for 32-bit, the other modules, alert rules, the console in a browser
	$(step) 'all passed'

.PHONY: test-short
test-short: ## the tests without the long ones
	$(step) 'go test -short $(PKG)'
	@$(gotest) -short $(PKG)

.PHONY: flakes
flakes: ## the tests RUNS (100) times in random order, with -race, on 1, 2 and 8 processors and busy cores; PKG=./reflector for one package
	@GO='$(GO)' hack/flakes.sh -n '$(RUNS)' $(PKG)

# Without -race, for more rounds in the same time.
.PHONY: soak
soak: ## random and long tests, SOAK (3) times as long as in test; PKG=./store for one package
	$(step) 'go test -soak=$(SOAK) of the packages with random or long tests'
	@pkgs=$$($(call soaked,$(PKG))) || exit 1; \
	if [ -z "$$pkgs" ]; then echo 'none of $(PKG) has random or long tests'; exit 1; fi; \
	$(gotest) -vet=off -count=1 -timeout 24h $(SOAKFLAGS) $$pkgs -soak='$(SOAK)'

.PHONY: lint
lint: fmt vet staticcheck ## gofmt, go vet and staticcheck

.PHONY: bench
bench: ## Tarn beside client-go, as one table
	$(step) 'bench: go run . $(BENCHFLAGS)'
	@cd bench && $(GO) run . $(BENCHFLAGS)

.PHONY: bench-guard
bench-guard: ## what the hot paths allocate, compared with internal/guard/baseline.txt
	$(step) 'go test ./internal/guard -guard'
	@$(GO) test -vet=off -count=1 ./internal/guard -guard

# e2e/build is a separate module that compiles Kubernetes. The tests are compiled on all cores;
# then two packages at a time run, each with its own control plane, the longest first. Most of
# their time is waiting.
.PHONY: e2e
e2e: ## tests on a real control plane, which is built the first time (some minutes)
	$(step) 'e2e/build: etcd, kube-apiserver and kubectl'
	@cd e2e/build && $(GO) vet . && $(GO) test . && $(GO) run .
	$(step) 'e2e: go test ./... $(E2EFLAGS)'
	@cd e2e && $(GO) test -run '^$$' ./... >/dev/null && $(gotest) -p 2 -count=1 -timeout 20m ./chaos ./conformance ./shards ./adapters ./clients ./leader ./operators ./controlplane $(E2EFLAGS)

# Without Chromium the tests cannot run; root on Debian installs it.
.PHONY: browser
browser: ## the page of the console in headless Chromium, which is installed if missing and possible
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo '==> apt-get install chromium'; \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >/dev/null || true; \
	fi
	$(step) 'e2e/console: go test . $(BROWSERFLAGS)'
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then \
		cd e2e/console && $(gotest) -vet=off -count=1 -timeout 20m . $(BROWSERFLAGS); \
	else \
		echo 'SKIPPED: Chromium is missing and cannot be installed from here; install your system'"'"'s package chromium'; \
	fi

.PHONY: upstream
upstream: ## client-go's own tests over the adapters, as a table
	$(step) 'e2e: go run ./upstream $(UPSTREAMFLAGS)'
	@cd e2e && $(GO) run ./upstream $(UPSTREAMFLAGS)

.PHONY: upstream-suites
upstream-suites: ## integration suites of controller-runtime and operators against tarn apiserver; UPSTREAMFLAGS=-compare against kube-apiserver too
	$(step) 'e2e: go run ./upstream -suites $(UPSTREAMFLAGS)'
	@cd e2e && $(GO) run ./upstream -suites $(UPSTREAMFLAGS)

.PHONY: chaos
chaos: ## only the part of e2e that injects faults into the control plane; E2EFLAGS='-soak 10 -seed 7' for longer
	$(step) 'e2e/build: etcd, kube-apiserver and kubectl'
	@cd e2e/build && $(GO) run .
	$(step) 'e2e: go test ./chaos ./leader $(E2EFLAGS)'
	@cd e2e && $(gotest) -p 1 -count=1 -timeout 24h ./chaos ./leader $(E2EFLAGS)

.PHONY: scale
scale: ## 100,000 pods and 50,000 custom resources on a real control plane, Tarn beside client-go
	$(step) 'e2e/build: etcd, kube-apiserver and kubectl'
	@cd e2e/build && $(GO) run .
	$(step) 'e2e: go run ./scale $(SCALEFLAGS)'
	@cd e2e && $(GO) run ./scale $(SCALEFLAGS)

# Every target runs, even after one has failed; go keeps failing inputs in the package's
# testdata/fuzz.
.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (30s); PKG=./object for one package
	@pkgs=$$($(GO) list $(PKG)) || exit 1; failed=; \
	for pkg in $$pkgs; do \
		out=$$($(GO) test -list '^Fuzz' "$$pkg") || { printf '%s\n' "$$out"; exit 1; }; \
		for target in $$(printf '%s\n' "$$out" | grep '^Fuzz'); do \
			printf '==> fuzz %s %s for %s\n' "$$pkg" "$$target" '$(FUZZTIME)'; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' "$$pkg" || failed="$$failed $$target"; \
		done; \
	done; \
	if [ -n "$$failed" ]; then printf 'failed:%s\n' "$$failed"; exit 1; fi

.PHONY: cover
cover: ## coverage by package and in total; HTML=1 for an HTML report
	$(step) 'go test -coverprofile=coverage.out $(PKG)'
	@$(GO) test -covermode=atomic -coverprofile=coverage.out $(PKG)
	@out=$$($(GO) tool cover -func=coverage.out) && printf '%s\n' "$$out" | tail -n 1
	@if [ -n '$(HTML)' ]; then $(GO) tool cover -html=coverage.out -o coverage.html && echo 'wrote coverage.html'; fi

.PHONY: clean
clean: ## remove the files that other targets create
	@rm -f coverage.out coverage.html
	@find . -name .git -prune -o -type f \( -name '*.test' -o -name '*.prof' \) -exec rm -f {} +

# The steps of test and check; each can be run separately.

.PHONY: fmt
fmt:
	$(step) 'gofmt'
	@files=$$(git ls-files -co --exclude-standard -- '*.go') || exit 1; \
	there=; for f in $$files; do if [ -f "$$f" ]; then there="$$there $$f"; fi; done; \
	out=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$there 2>&1); rc=$$?; \
	if [ -n "$$out" ] || [ $$rc != 0 ]; then printf '%s\n' "$$out" 'run gofmt -w on these'; exit 1; fi

.PHONY: vet
vet:
	$(step) 'go vet ./...'
	@$(GO) vet ./...

.PHONY: staticcheck
staticcheck:
	$(step) 'staticcheck ./...'
	@$(tool) staticcheck ./...

# govulncheck exits with 3 if it finds a vulnerability. Without network access there is no
# database, and this step is skipped.
.PHONY: vuln
vuln:
	$(step) 'govulncheck ./...'
	@out=$$($(tool) govulncheck ./... 2>&1); rc=$$?; \
	case "$$rc:$$out" in \
		0:*) printf '%s\n' "$$out" | tail -n 3 ;; \
		1:*'fetching vulnerabilities: '*) echo 'SKIPPED: the vulnerability database cannot be reached from here'; printf '%s\n' "$$out" | tail -n 1 ;; \
		*) printf '%s\n' "$$out"; exit 1 ;; \
	esac

.PHONY: unit
unit:
	$(step) 'go test ./...'
	@$(gotest) -vet=off -p 4 -timeout 30m ./...

# Without the tests that run other programs, and without packages whose code runs in one goroutine or
# whose concurrent parts are those of packages tested here. The race detector's sleep of a second at the
# end of each binary is left out: the goroutines it waits for are found by goleak.
.PHONY: race
race:
	$(step) 'go test -race ./...'
	@pkgs=$$($(GO) list ./... | grep -vE '/(internal/(arch|cli|cron|docs|jsondec|masking|objectdiff|packing|paging|protodec|scaffold)|apiserver/builtin|cmd/.*|examples/migrate)$$') || exit 1; \
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 $(gotest) -vet=off -race -timeout 30m $$pkgs

# The packages that read lengths from the network. linux/amd64 runs the tests; other systems
# only compile them.
.PHONY: test-386
test-386:
	$(step) 'GOARCH=386 go test -short of wire and the decoders'
	@if [ "$$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH)" = linux/amd64 ]; then exec=; else exec='-exec true'; fi; \
	GOOS=linux GOARCH=386 CGO_ENABLED=0 $(GO) test -vet=off -short $$exec ./wire/... ./internal/intern ./internal/jsondec ./internal/mvcc ./internal/packing ./internal/paging ./internal/protodec

.PHONY: modules
modules:
	@set -e; for m in $(MODULES); do \
		printf '==> %s: go vet ./...\n' "$$m"; \
		( cd "$$m" && $(GO) vet ./... ); \
		case "$$m" in examples/*|controllerruntime|e2e/rules) printf '==> %s: go test ./...\n' "$$m"; ( cd "$$m" && $(gotest) -vet=off ./... ) ;; esac; \
	done; \
	printf '==> e2e: go test of the adapters with the newest k8s.io and controller-runtime\n'; \
	cd e2e && $(gotest) -vet=off $(NEWEST)
