// Command build builds the programs of the local cluster, the driver
// included, and shows how far it is.
//
// It is what a Makefile starts with "go run ./cmd/build NAME..." when there is
// no driver yet: it needs nothing but the standard library. Afterwards
// "cluster build NAME..." does the same.
package main
