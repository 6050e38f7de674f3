// Package docs checks the documents against the repository: every relative link leads to a file and, with an anchor,
// to a heading of it; every `make` target that a document mentions exists; every alert has a section in the runbook;
// every page is in docs/README.md once. Run it with `make docs-check`.
//
// And it runs the commands that documents show, with `make docs-run`: page_test.go finds the commands of a page,
// run_test.go is the reader who follows it.
package docs
