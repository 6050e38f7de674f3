// Package e2e tests Berth as its users meet it: the built binaries, a real kube-apiserver and
// kube-controller-manager, simulated kubelets. Each test covers something an operator does and sees.
//
// The tests carry the build tag e2e, so that `go test` over the workspace stays quick; run them with `make e2e`, one
// with `make e2e RUN=TestSmoke`. A missing binary fails them. When a test fails it prints the ends of all logs and
// keeps its directory.
//
// A few run in parallel (t.Parallel; BESIDE in the Makefile), because mostly they wait. A test that bounds a time in
// seconds does not: it runs alone, before the others.
//
// Start reading at stack_test.go, then smoke_test.go.
package e2e
