// Package vuln pins the scanner that `make vulncheck` builds and runs. It is a module of its own,
// outside the workspace, so that the scanner's dependencies never meet the product's.
//
// There is no code here: the tool line of go.mod names the program. What it knows of vulnerabilities
// is a database that whoever runs it supplies as files.
package vuln
