# make alone prints the targets.

.DEFAULT_GOAL := help
.PHONY: help run build test race fault lint fmt web web-dev browser screenshots openapi bench bench-production chaos clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

run: ## run the demo town
	go run ./cmd/tandian

build: ## build the static binary bin/tandian
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/tandian ./cmd/tandian

test: ## run everything that must hold, installing what is missing
	@scripts/test

race: ## run the Go tests only, with the race detector
	@scripts/go-test ./...

fault: ## run the Go tests with every fault that can be switched on
	@scripts/go-test -tags fault ./...

lint: ## run gofmt, go vet and staticcheck
	@scripts/lint

fmt: ## format the Go code
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

web: ## rebuild the web apps into web/dist
	@scripts/web-build

web-dev: ## serve the shopper app with hot reload, beside a running server
	cd web && npm run dev

browser: ## run the browser test
	@scripts/browser-test

screenshots: ## take the README's picture again
	@scripts/screenshots

openapi: ## write api/openapi.json and the web apps' types from the code
	go run ./cmd/tandian openapi --out api/openapi.json
	cd web && npm run --silent api

bench: ## sell a whole flash sale on a server of its own and judge it
	go run ./cmd/tandian bench grab --self

bench-production: ## measure the production mode and write its page in docs/benchmarks; seven minutes
	@scripts/bench-production

chaos: ## break things while sales run and judge what buyers were told: N=30 SEED=7 BROKER=all FROM=1
	go run ./test/chaos -n $(or $(N),30) -seed $(or $(SEED),0) -broker $(or $(BROKER),all) -from $(or $(FROM),1)

clean: ## remove what was built; the demo's data stays
	rm -rf bin web/node_modules test/browser/node_modules
