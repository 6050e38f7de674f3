// Package vuln pins the scanner that `make vulncheck` builds and runs. It is a module of its own, outside the
// workspace, so that the scanner's dependencies never meet the product's.
//
// There is no code here: the tool line of go.mod names the program. Its database of vulnerabilities is supplied as
// files by the user who runs it.
package vuln
