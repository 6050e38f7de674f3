// Package lint pins the linter that `make lint` builds and runs. It is a module of its own,
// outside the workspace, so that the linter's dependencies never meet the product's.
//
// There is no code here: the tool line of go.mod names the program, .golangci.yml at the top
// of the repository configures it.
package lint
