// Command scheduling-e2e has Kubernetes' own end-to-end tests of scheduling, test/e2e/scheduling, as a program, without
// the tests of everything else and what those need. It takes the flags of the framework and of ginkgo.
package main
