// Command build builds the programs of the local cluster, the driver included, and shows its progress.
//
// A Makefile starts it with "go run ./cmd/build NAME..." when there is no driver yet: it needs only the standard
// library. Afterwards "cluster build NAME..." does the same.
package main
